//! Gangs without a scheduler: the group of a job on a real API server, from its first pod to a resume, and
//! a job whose gang API is not there yet.

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, SOON, uid};
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::{Value, json};
use std::time::Duration;

use super::fixture::new_fixture;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// A refused object is tried again within this time, and the API server serves a new definition.
const TRIED_AGAIN_MAX: Duration = Duration::from_secs(90);

fn in_gang(gang: &str) -> MpiJob {
    let job = MpiJob::named("pi").workers(2);
    job.with("/spec/muster/gang", gang)
}

fn group(fixture: &ApiFixture, api: &str) -> Result<Option<Value>> {
    let path = format!("/apis/{api}/namespaces/{}/podgroups/pi", fixture.namespace);
    fixture.api.get(&path)
}

#[test]
fn a_native_gang_follows_its_job() -> Result<()> {
    const API: &str = "scheduling.k8s.io/v1beta1";
    let fixture = new_fixture("native")?;
    let _operator = fixture.operator()?;
    let job = fixture.submit(&in_gang("Native"))?;
    let pods = [
        fixture.await_pods("pi", "worker", 2)?,
        fixture.await_pods("pi", "launcher", 1)?,
    ];
    let first = group(&fixture, API)?.context("pods without a group")?;
    ensure!(first["metadata"]["ownerReferences"][0]["uid"] == uid(&job));
    let count = |group: &Value| group["spec"]["schedulingPolicy"]["gang"]["minCount"].as_i64();
    ensure!(count(&first) == Some(3), "{}", first["spec"]);
    let mode = &first["spec"]["disruptionMode"];
    ensure!(*mode == json!({"all": {}}), "{mode}");
    for pod in pods.concat() {
        let link = &pod["spec"]["schedulingGroup"]["podGroupName"];
        ensure!(link == "pi", "{}", pod["spec"]);
    }

    let workers = json!({"mpiReplicaSpecs": {"Worker": {"replicas": 4}}});
    fixture.edit("pi", &json!({"spec": workers}))?;
    wait_for("the group of five", SOON, || {
        let group = group(&fixture, API)?.context("the group is gone")?;
        Ok((count(&group) == Some(5)).then_some(()))
    })?;

    let suspend = |suspend: bool| json!({"spec": {"runPolicy": {"suspend": suspend}}});
    fixture.edit("pi", &suspend(true))?;
    wait_for("the group to go", SOON, || {
        Ok(group(&fixture, API)?.is_none().then_some(()))
    })?;
    fixture.edit("pi", &suspend(false))?;
    fixture.await_pods("pi", "worker", 4)?;
    let second = group(&fixture, API)?.context("pods without a group")?;
    ensure!(uid(&second) != uid(&first) && count(&second) == Some(5));
    Ok(())
}

/// As far as muster writes it; Volcano itself is not here.
fn volcano_groups() -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.volcano.sh"},
        "spec": {
            "group": "scheduling.volcano.sh", "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free}}}}],
        },
    })
}

#[test]
fn a_job_waits_for_its_gang_api_and_goes_on_when_it_appears() -> Result<()> {
    let fixture = new_fixture("gangless")?;
    let _operator = fixture.operator()?;
    fixture.submit(&in_gang("Volcano"))?;
    let said = wait_for("the reason", SOON, || {
        let muster = fixture.job("pi")?["status"]["muster"].take();
        Ok((muster["reason"] == "WaitingForGang").then_some(muster))
    })?;
    let message = said["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("podgroups.scheduling.volcano.sh"),
        "{message}"
    );
    ensure!(
        fixture.pods("pi", "worker")?.is_empty(),
        "pods before their group"
    );

    fixture.api.create(CRDS, &volcano_groups())?;
    wait_for("workers", TRIED_AGAIN_MAX, || {
        let workers = fixture.pods("pi", "worker")?;
        Ok((workers.len() == 2).then_some(()))
    })?;
    let group = group(&fixture, "scheduling.volcano.sh/v1beta1")?.context("no group")?;
    ensure!(group["spec"]["minMember"] == 3, "{}", group["spec"]);
    // A cluster may be kept for another run.
    fixture
        .api
        .delete(&format!("{CRDS}/podgroups.scheduling.volcano.sh"))
}
