//! The NetworkPolicy of a job that asks for one: there before the pods, owned by the job, as it was written,
//! and gone when it is no longer wanted.

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{SOON, uid};
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;

fn created_at(object: &Value) -> Result<&str> {
    let at = object["metadata"]["creationTimestamp"].as_str();
    at.context("an object without a time")
}

#[test]
fn s09_a_job_is_closed_to_others_from_its_first_pod_until_it_is_opened() -> Result<()> {
    let fixture = new_fixture("closed")?;
    let _operator = fixture.operator()?;
    let mut job = MpiJob::named("pi").workers(2).json();
    job["spec"]["muster"] = json!({"networkPolicy": "On"});
    let job = fixture.create("mpijobs", &job)?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    let policy = fixture.get("networkpolicies", "pi")?;
    let policy = policy.context("the job has no NetworkPolicy")?;
    let owner = &policy["metadata"]["ownerReferences"][0]["uid"];
    ensure!(*owner == uid(&job), "{policy}");
    let own = json!({"matchLabels": {"muster.dev/job-uid": uid(&job)}});
    let wanted = json!({
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    });
    ensure!(policy["spec"] == wanted, "{}", policy["spec"]);
    let pods = [
        fixture.pods("pi", "worker")?,
        fixture.pods("pi", "launcher")?,
    ]
    .concat();
    ensure!(pods.len() == 3, "the job has {} pods", pods.len());
    for pod in &pods {
        ensure!(
            pod["metadata"]["labels"]["muster.dev/job-uid"] == uid(&job),
            "a pod is not selected: {pod}"
        );
        ensure!(
            created_at(pod)? >= created_at(&policy)?,
            "a pod is older than its NetworkPolicy"
        );
    }

    // Somebody opens it, and it is closed again.
    let open = json!({"spec": {"ingress": [{}]}});
    fixture
        .api
        .merge(&fixture.path("networkpolicies", "pi"), &open)?;
    wait_for("the NetworkPolicy to be corrected", SOON, || {
        let policy = fixture.get("networkpolicies", "pi")?;
        Ok(policy.filter(|policy| policy["spec"] == wanted))
    })?;

    fixture.edit("pi", &json!({"spec": {"muster": {"networkPolicy": "Off"}}}))?;
    wait_for("the NetworkPolicy to go", SOON, || {
        Ok(fixture
            .get("networkpolicies", "pi")?
            .is_none()
            .then_some(()))
    })?;
    fixture.finish("pi")?;
    fixture.await_condition("pi", "Succeeded")?;
    Ok(())
}
