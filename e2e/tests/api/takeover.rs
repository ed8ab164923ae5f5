//! Jobs that another operator started: their children lack the labels that ours are watched by. They
//! are found all the same, and neither replaced nor given up.

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, SOON, name, uid};
use e2e::jobs::MpiJob;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// Takes our labels off, so that an object is as the Kubeflow operator would have made it.
fn unlabel(fixture: &ApiFixture, resource: &str, name: &str) -> Result<()> {
    let labels = json!({"app.kubernetes.io/managed-by": null, "muster.dev/job-uid": null});
    let patch = json!({"metadata": {"labels": labels}});
    fixture.api.merge(&fixture.path(resource, name), &patch)?;
    Ok(())
}

fn launcher(fixture: &ApiFixture) -> Result<Value> {
    let job = fixture.get("jobs", "pi-launcher")?;
    job.context("there is no launcher")
}

/// A job that runs, and no operator.
fn orphaned(fixture: &ApiFixture, job: &MpiJob) -> Result<()> {
    let first = fixture.operator()?;
    fixture.submit(job)?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    first.terminate()?;
    wait_for("the first operator to end", SOON, || first.ended())?;
    Ok(())
}

#[test]
fn a_running_job_of_another_operator_goes_on_past_its_deadline_and_is_cleaned_up() -> Result<()> {
    let fixture = new_fixture("takeover")?;
    let job = MpiJob::named("pi").workers(2).deadline_secs(600);
    orphaned(&fixture, &job.clean_pod_policy("Running"))?;
    let before = launcher(&fixture)?;
    for (resource, name) in [
        ("services", "pi"),
        ("configmaps", "pi-config"),
        ("jobs", "pi-launcher"),
    ] {
        unlabel(&fixture, resource, name)?;
    }
    let workers = fixture.pods("pi", "worker")?;
    for pod in workers.iter().chain(&fixture.pods("pi", "launcher")?) {
        unlabel(&fixture, "pods", name(pod))?;
    }
    // Years ago: by the job's own clock its deadline is long over, by that of its Job it is not.
    let status = json!({"status": {"startTime": "2020-01-01T00:00:00Z"}});
    let path = format!("{}/status", fixture.path("mpijobs", "pi"));
    fixture.api.merge(&path, &status)?;

    let _second = fixture.operator()?;
    fixture.finish("pi")?;
    let job = fixture.await_condition("pi", "Succeeded")?;
    ensure!(condition(&job, "Failed").is_none(), "{}", job["status"]);
    ensure!(
        uid(&launcher(&fixture)?) == uid(&before),
        "the launcher was replaced"
    );
    fixture.await_pods("pi", "worker", 0)?;
    Ok(())
}

#[test]
fn c15_a_launcher_that_lost_its_job_is_not_joined_by_another() -> Result<()> {
    let fixture = new_fixture("orphan")?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    let before = fixture.await_pods("pi", "launcher", 1)?;
    let path = fixture.path("jobs", "pi-launcher");
    let orphan = format!("{path}?propagationPolicy=Orphan");
    fixture.api.delete(&orphan)?;
    wait_for("the launcher's pod to have no owner", SOON, || {
        let pods = fixture.await_pods("pi", "launcher", 1)?;
        let owners = &pods[0]["metadata"]["ownerReferences"];
        Ok(owners.as_array().is_none_or(Vec::is_empty).then_some(()))
    })?;
    // The operator reconciles the job because of a change that comes after it saw the Job go.
    let note = json!({"metadata": {"annotations": {"note": "again"}}});
    fixture.api.merge(&fixture.path("mpijobs", "pi"), &note)?;
    fixture.finish("pi")?;
    fixture.await_condition("pi", "Succeeded")?;
    let after = fixture.await_pods("pi", "launcher", 1)?;
    ensure!(uid(&after[0]) == uid(&before[0]), "another launcher ran");
    ensure!(fixture.get("jobs", "pi-launcher")?.is_none(), "another Job");
    Ok(())
}

#[test]
fn a_worker_that_lost_the_label_it_is_watched_by_is_named() -> Result<()> {
    let fixture = new_fixture("hidden")?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    let hide = json!({"metadata": {"labels": {"training.kubeflow.org/operator-name": null}}});
    let path = fixture.path("pods", "pi-worker-0");
    let hidden = fixture.api.merge(&path, &hide)?;
    wait_for("the job to say which pod is out of sight", SOON, || {
        let job = fixture.job("pi")?;
        let muster = &job["status"]["muster"];
        let message = muster["message"].as_str().unwrap_or_default();
        let told = muster["reason"] == "NameTaken" && message.contains("pi-worker-0");
        Ok(told.then_some(()))
    })?;
    let shown = json!({"metadata": {"labels": {
        "training.kubeflow.org/operator-name": "mpi-operator",
    }}});
    let shown = fixture.api.merge(&path, &shown)?;
    ensure!(uid(&shown) == uid(&hidden), "the worker was replaced");
    fixture.await_job("pi", "its worker is back", SOON, |job| {
        job["status"]["muster"]["phase"] == "Running"
    })?;
    fixture.finish("pi")?;
    fixture.await_condition("pi", "Succeeded")?;
    Ok(())
}
