//! Gangs without a scheduler: the group of a job on a real API server, from its first pod to a resume, as
//! Kubernetes and the makers of gang schedulers define it, and a job whose gang API is not there yet.

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

/// Others install and remove other gang APIs meanwhile, and Kubernetes' own comes before them.
#[test]
fn a_job_gets_the_gang_scheduler_that_is_found_and_keeps_it() -> Result<()> {
    const API: &str = "scheduling.k8s.io/v1beta1";
    let fixture = new_fixture("auto")?;
    let operator = fixture.operator()?;
    fixture.submit(&in_gang("Auto"))?;
    fixture.await_pods("pi", "worker", 2)?;
    let first = group(&fixture, API)?.context("pods without a group")?;

    drop(operator);
    let _operator = fixture.operator()?;
    let workers = json!({"mpiReplicaSpecs": {"Worker": {"replicas": 3}}});
    fixture.edit("pi", &json!({"spec": workers}))?;
    for pod in fixture.await_pods("pi", "worker", 3)? {
        let link = &pod["spec"]["schedulingGroup"]["podGroupName"];
        ensure!(link == "pi", "{}", pod["spec"]);
    }
    let same = group(&fixture, API)?.context("the group is gone")?;
    ensure!(uid(&same) == uid(&first), "another group");
    Ok(())
}

#[test]
fn volcano_accepts_the_group_of_a_job_that_waited_for_it() -> Result<()> {
    let wanted = json!({"minMember": 2, "queue": "jobs", "priorityClassName": "system-node-critical",
        "minResources": {"cpu": "3"}});
    follows("Volcano", "scheduling.volcano.sh", "v1beta1", &wanted)
}

#[test]
fn scheduler_plugins_accept_the_group_of_a_job_that_waited_for_them() -> Result<()> {
    let wanted =
        json!({"minMember": 2, "scheduleTimeoutSeconds": 60, "minResources": {"cpu": "3"}});
    follows(
        "SchedulerPlugins",
        "scheduling.x-k8s.io",
        "v1alpha1",
        &wanted,
    )
}

/// With the definition that the scheduler's makers publish: what it does not know would be dropped.
fn follows(gang: &str, api_group: &str, version: &str, wanted: &Value) -> Result<()> {
    let fixture = new_fixture("gangless")?;
    let _operator = fixture.operator()?;
    let policy = json!({"minAvailable": 2, "queue": "jobs", "scheduleTimeoutSeconds": 60,
        "priorityClass": "system-node-critical", "minResources": {"cpu": "3"}});
    fixture.submit(&in_gang(gang).with("/spec/runPolicy/schedulingPolicy", policy))?;
    let crd = format!("podgroups.{api_group}");
    let said = wait_for("the reason", SOON, || {
        let muster = fixture.job("pi")?["status"]["muster"].take();
        Ok((muster["reason"] == "WaitingForGang").then_some(muster))
    })?;
    let message = said["message"].as_str().unwrap_or_default();
    ensure!(message.contains(&crd), "{message}");
    ensure!(
        fixture.pods("pi", "worker")?.is_empty(),
        "pods before their group"
    );

    let definitions = std::env::var("MUSTER_E2E_POD_GROUPS")
        .context("MUSTER_E2E_POD_GROUPS is not set: run `cargo xtask test --only api`")?;
    let definition = format!("{definitions}/{api_group}_podgroups.yaml");
    let apply = ["apply", "--server-side", "--filename", &definition];
    fixture.cluster.kubectl(&apply)?;
    let _definition = Definition(&fixture, crd);
    wait_for("workers", TRIED_AGAIN_MAX, || {
        let workers = fixture.pods("pi", "worker")?;
        Ok((workers.len() == 2).then_some(()))
    })?;
    let api = format!("{api_group}/{version}");
    let stored = group(&fixture, &api)?.context("no group")?;
    ensure!(stored["spec"] == *wanted, "{}", stored["spec"]);

    // I5 and I6 of Kubeflow's integration tests.
    let policy = json!({"minAvailable": 3, "queue": "others", "scheduleTimeoutSeconds": 10});
    let policy = json!({"schedulingPolicy": policy});
    fixture.edit("pi", &json!({"spec": {"runPolicy": policy}}))?;
    let mut wanted = wanted.clone();
    for (field, value) in [
        ("minMember", json!(3)),
        ("queue", json!("others")),
        ("scheduleTimeoutSeconds", json!(10)),
    ] {
        if wanted.get(field).is_some() {
            wanted[field] = value;
        }
    }
    wait_for("the group to follow", SOON, || {
        let group = group(&fixture, &api)?.context("the group is gone")?;
        Ok((group["spec"] == wanted).then_some(()))
    })?;
    fixture.edit("pi", &json!({"spec": {"runPolicy": {"suspend": true}}}))?;
    wait_for("the group to go", SOON, || {
        Ok(group(&fixture, &api)?.is_none().then_some(()))
    })
}

/// A definition that goes with this value, however the test ends: a cluster may be kept for another run.
struct Definition<'a>(&'a ApiFixture, String);

impl Drop for Definition<'_> {
    fn drop(&mut self) {
        let Self(fixture, name) = self;
        if let Err(error) = fixture.api.delete(&format!("{CRDS}/{name}")) {
            eprintln!("{error:#}");
        }
    }
}
