//! T9k's MPIJob on the real API server: a job lives as the manual says, from its first pod to what is
//! left of it, and waits in the queue of the platform's scheduler if it asks for that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, name, uid};
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;

fn path(fixture: &ApiFixture, job: &str) -> String {
    let namespace = &fixture.namespace;
    format!("/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/mpijobs/{job}")
        .trim_end_matches('/')
        .to_owned()
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "worker": {
                "replicas": 2,
                "extraMPIArgs": ["-N", "3"],
                "cmd": ["./random_walk"],
                "template": {"spec": {"containers": [{"name": "mpi-worker", "image": "w"}]}},
            },
            "runPolicy": {"cleanUpWorkers": true},
            "runMode": {"pause": {"enabled": false,
                "resumeSpecs": [{"type": "worker", "command": ["/usr/bin/sshd"]}]}},
        },
    })
}

fn await_phase(fixture: &ApiFixture, job: &str, phase: &str) -> Result<Value> {
    let found = wait_for(&format!("{job} to be {phase}"), SOON, || {
        let found = fixture
            .api
            .get(&path(fixture, job))?
            .context("the job is gone")?;
        Ok(Some(found).filter(|job| job["status"]["phase"] == phase))
    });
    found.with_context(|| match fixture.api.get(&path(fixture, job)) {
        Ok(Some(job)) => format!("its status is {}", job["status"]),
        other => format!("{other:?}"),
    })
}

fn run(fixture: &ApiFixture, job: &str) -> Result<Vec<Value>> {
    let workers = fixture.await_pods(job, "worker", 2)?;
    fixture.set(&workers, PodState::Ready)?;
    let launcher = fixture.await_pods(job, "launcher", 1)?;
    fixture.set(&launcher, PodState::Ready)?;
    await_phase(fixture, job, "Running")?;
    Ok(launcher)
}

fn pause(fixture: &ApiFixture, job: &str, paused: bool) -> Result<()> {
    let patch = json!({"spec": {"runMode": {"pause": {"enabled": paused}}}});
    fixture.api.merge(&path(fixture, job), &patch).map(drop)
}

#[test]
fn a_t9k_job_runs_and_its_launcher_outlives_its_workers() -> Result<()> {
    let fixture = new_fixture("t9k")?;
    let operator = fixture.operator()?;
    fixture.api.create(&path(&fixture, ""), &job("walk"))?;
    fixture.await_pods("walk", "worker", 2)?;
    ensure!(
        fixture.get("pods", "walk-launcher")?.is_none(),
        "it did not wait"
    );
    let launcher = run(&fixture, "walk")?;
    ensure!(name(&launcher[0]) == "walk-launcher");
    let command = &launcher[0]["spec"]["containers"][0]["command"];
    ensure!(
        *command == json!(["mpirun", "-N", "3", "./random_walk"]),
        "{command}"
    );
    let hosts = fixture.await_object("configmaps", "walk-config")?;
    let hosts = hosts["data"]["hostfile"].as_str().unwrap_or_default();
    ensure!(
        hosts.contains("walk-worker-1.walk.") && hosts.contains("slots=3"),
        "{hosts}"
    );

    fixture.set(&launcher, PodState::Succeeded)?;
    await_phase(&fixture, "walk", "Succeeded")?;
    fixture.await_pods("walk", "worker", 0)?;
    wait_for("the deleted workers to be counted", SOON, || {
        let job = fixture.api.get(&path(&fixture, "walk"))?.context("gone")?;
        Ok((job["status"]["aggregate"]["deleted"] == 2).then_some(()))
    })?;
    let job = fixture.api.get(&path(&fixture, "walk"))?.context("gone")?;
    let tasks = &job["status"]["tasks"];
    ensure!(tasks[0]["status"][0]["phase"] == "Succeeded", "{tasks}");
    ensure!(tasks[1]["status"][1]["phase"] == "Deleted", "{tasks}");
    ensure!(fixture.get("pods", "walk-launcher")?.is_some());
    operator.assert_alive()
}

#[test]
fn a_t9k_job_is_paused_and_resumed_as_it_says() -> Result<()> {
    let fixture = new_fixture("t9k")?;
    let _operator = fixture.operator()?;
    fixture.api.create(&path(&fixture, ""), &job("walk"))?;
    run(&fixture, "walk")?;
    pause(&fixture, "walk", true)?;
    await_phase(&fixture, "walk", "Paused")?;
    fixture.await_pods("walk", "worker", 0)?;
    fixture.await_pods("walk", "launcher", 0)?;

    let edit = json!({"spec": {"runMode": {"pause": {"resumeSpecs": null}}}});
    let answer = fixture
        .api
        .send("PATCH", &path(&fixture, "walk"), Some(&edit))?;
    ensure!(
        answer.message().contains("spec.runMode.pause.resumeSpecs"),
        "{answer:?}"
    );

    pause(&fixture, "walk", false)?;
    let workers = fixture.await_pods("walk", "worker", 2)?;
    let command = &workers[0]["spec"]["containers"][0]["command"];
    ensure!(*command == json!(["/usr/bin/sshd"]), "{command}");
    await_phase(&fixture, "walk", "Resuming")?;
    run(&fixture, "walk")?;
    Ok(())
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The API server serves a new definition within this time.
const SERVED_MAX: Duration = Duration::from_secs(30);

/// A PodGroup as the platform documents it; the platform itself is not here.
fn pod_groups() -> Value {
    let number = json!({"type": "integer", "format": "int32"});
    let spec = json!({"type": "object", "required": ["minMember", "queue"], "properties": {
        "minMember": number, "priority": number, "queue": {"type": "string"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduler.tensorstack.dev"},
        "spec": {
            "group": "scheduler.tensorstack.dev", "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

/// Line 18 of the acceptance list, and what a job says before the scheduler is there.
#[test]
fn a18_a_job_in_a_queue_has_a_group_of_its_scheduler() -> Result<()> {
    let fixture = new_fixture("t9k")?;
    let _operator = fixture.operator()?;
    let mut wanted = job("walk");
    wanted["spec"]["scheduler"] = json!({"t9kScheduler": {"queue": "default", "priority": 50}});
    let made = fixture.api.create(&path(&fixture, ""), &wanted)?;
    wait_for("the job to say what is missing", SOON, || {
        let job = fixture.api.get(&path(&fixture, "walk"))?.context("gone")?;
        let said = job["status"]["muster"]["message"].to_string();
        Ok(said.contains("scheduler.tensorstack.dev").then_some(()))
    })?;
    ensure!(
        fixture.pods("walk", "worker")?.is_empty(),
        "pods before their group"
    );

    fixture.api.create(CRDS, &pod_groups())?;
    let groups = format!(
        "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/{}/podgroups",
        fixture.namespace
    );
    let group = wait_for("the group", SERVED_MAX + SOON, || {
        fixture.api.get(&format!("{groups}/walk"))
    })?;
    let spec = json!({"minMember": 2, "queue": "default", "priority": 50});
    ensure!(group["spec"] == spec, "{}", group["spec"]);
    let owner = &group["metadata"]["ownerReferences"][0];
    ensure!(owner["uid"] == uid(&made), "{owner}");

    let workers = fixture.await_pods("walk", "worker", 2)?;
    fixture.set(&workers, PodState::Ready)?;
    let launcher = fixture.await_pods("walk", "launcher", 1)?;
    for pod in workers.iter().chain(&launcher) {
        ensure!(pod["spec"]["schedulerName"] == "t9k-scheduler");
        let labels = &pod["metadata"]["labels"];
        ensure!(
            labels["scheduler.tensorstack.dev/group-name"] == "walk",
            "{labels}"
        );
        ensure!(
            labels["scheduler.tensorstack.dev/queue"] == "default",
            "{labels}"
        );
    }
    // Somebody removes it: the operator recreates it, because the pods still wait in it.
    fixture.api.delete(&format!("{groups}/walk"))?;
    wait_for("another group", SOON, || {
        let again = fixture.api.get(&format!("{groups}/walk"))?;
        Ok(again.filter(|again| uid(again) != uid(&group)))
    })?;
    fixture.set(&launcher, PodState::Ready)?;
    await_phase(&fixture, "walk", "Running")?;
    fixture.set(&launcher, PodState::Succeeded)?;
    await_phase(&fixture, "walk", "Succeeded")?;
    wait_for("the group to go", SOON, || {
        let group = fixture.api.get(&format!("{groups}/walk"))?;
        Ok(group.is_none().then_some(()))
    })?;
    // A cluster may be kept for another run.
    let crd = format!("{CRDS}/podgroups.scheduler.tensorstack.dev");
    fixture.api.delete(&crd)
}
