//! T9k's MPIJob on the real API server: a job lives as the manual says, from its first pod to what is
//! left of it, and waits in the queue of the platform's scheduler if it asks for that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::ground::{Ground, PodState, SOON, name, uid};
use e2e::wait_for;
use serde_json::{Value, json};

use super::stage::ground;

fn path(ground: &Ground, job: &str) -> String {
    let namespace = &ground.namespace;
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

fn await_phase(ground: &Ground, job: &str, phase: &str) -> Result<Value> {
    let found = wait_for(&format!("{job} to be {phase}"), SOON, || {
        let found = ground
            .api
            .get(&path(ground, job))?
            .context("the job is gone")?;
        Ok(Some(found).filter(|job| job["status"]["phase"] == phase))
    });
    found.with_context(|| match ground.api.get(&path(ground, job)) {
        Ok(Some(job)) => format!("its status is {}", job["status"]),
        other => format!("{other:?}"),
    })
}

fn run(ground: &Ground, job: &str) -> Result<Vec<Value>> {
    let workers = ground.await_pods(job, "worker", 2)?;
    ground.set(&workers, PodState::Ready)?;
    let launcher = ground.await_pods(job, "launcher", 1)?;
    ground.set(&launcher, PodState::Ready)?;
    await_phase(ground, job, "Running")?;
    Ok(launcher)
}

fn pause(ground: &Ground, job: &str, paused: bool) -> Result<()> {
    let patch = json!({"spec": {"runMode": {"pause": {"enabled": paused}}}});
    ground.api.merge(&path(ground, job), &patch).map(drop)
}

#[test]
fn a_t9k_job_runs_and_its_launcher_outlives_its_workers() -> Result<()> {
    let ground = ground("t9k")?;
    let operator = ground.operator()?;
    ground.api.create(&path(&ground, ""), &job("walk"))?;
    ground.await_pods("walk", "worker", 2)?;
    ensure!(
        ground.get("pods", "walk-launcher")?.is_none(),
        "it did not wait"
    );
    let launcher = run(&ground, "walk")?;
    ensure!(name(&launcher[0]) == "walk-launcher");
    let command = &launcher[0]["spec"]["containers"][0]["command"];
    ensure!(
        *command == json!(["mpirun", "-N", "3", "./random_walk"]),
        "{command}"
    );
    let hosts = ground.await_object("configmaps", "walk-config")?;
    let hosts = hosts["data"]["hostfile"].as_str().unwrap_or_default();
    ensure!(
        hosts.contains("walk-worker-1.walk.") && hosts.contains("slots=3"),
        "{hosts}"
    );

    ground.set(&launcher, PodState::Succeeded)?;
    await_phase(&ground, "walk", "Succeeded")?;
    ground.await_pods("walk", "worker", 0)?;
    wait_for("the deleted workers to be counted", SOON, || {
        let job = ground.api.get(&path(&ground, "walk"))?.context("gone")?;
        Ok((job["status"]["aggregate"]["deleted"] == 2).then_some(()))
    })?;
    let job = ground.api.get(&path(&ground, "walk"))?.context("gone")?;
    let tasks = &job["status"]["tasks"];
    ensure!(tasks[0]["status"][0]["phase"] == "Succeeded", "{tasks}");
    ensure!(tasks[1]["status"][1]["phase"] == "Deleted", "{tasks}");
    ensure!(ground.get("pods", "walk-launcher")?.is_some());
    operator.assert_alive()
}

#[test]
fn a_t9k_job_is_paused_and_resumed_as_it_says() -> Result<()> {
    let ground = ground("t9k")?;
    let _operator = ground.operator()?;
    ground.api.create(&path(&ground, ""), &job("walk"))?;
    run(&ground, "walk")?;
    pause(&ground, "walk", true)?;
    await_phase(&ground, "walk", "Paused")?;
    ground.await_pods("walk", "worker", 0)?;
    ground.await_pods("walk", "launcher", 0)?;

    let edit = json!({"spec": {"runMode": {"pause": {"resumeSpecs": null}}}});
    let answer = ground
        .api
        .send("PATCH", &path(&ground, "walk"), Some(&edit))?;
    ensure!(
        answer.message().contains("spec.runMode.pause.resumeSpecs"),
        "{answer:?}"
    );

    pause(&ground, "walk", false)?;
    let workers = ground.await_pods("walk", "worker", 2)?;
    let command = &workers[0]["spec"]["containers"][0]["command"];
    ensure!(*command == json!(["/usr/bin/sshd"]), "{command}");
    await_phase(&ground, "walk", "Resuming")?;
    run(&ground, "walk")?;
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
    let ground = ground("t9k")?;
    let _operator = ground.operator()?;
    let mut wanted = job("walk");
    wanted["spec"]["scheduler"] = json!({"t9kScheduler": {"queue": "default", "priority": 50}});
    let made = ground.api.create(&path(&ground, ""), &wanted)?;
    wait_for("the job to say what is missing", SOON, || {
        let job = ground.api.get(&path(&ground, "walk"))?.context("gone")?;
        let said = job["status"]["muster"]["message"].to_string();
        Ok(said.contains("scheduler.tensorstack.dev").then_some(()))
    })?;
    ensure!(
        ground.pods("walk", "worker")?.is_empty(),
        "pods before their group"
    );

    ground.api.create(CRDS, &pod_groups())?;
    let groups = format!(
        "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/{}/podgroups",
        ground.namespace
    );
    let group = wait_for("the group", SERVED_MAX + SOON, || {
        ground.api.get(&format!("{groups}/walk"))
    })?;
    let spec = json!({"minMember": 2, "queue": "default", "priority": 50});
    ensure!(group["spec"] == spec, "{}", group["spec"]);
    let owner = &group["metadata"]["ownerReferences"][0];
    ensure!(owner["uid"] == uid(&made), "{owner}");

    let workers = ground.await_pods("walk", "worker", 2)?;
    ground.set(&workers, PodState::Ready)?;
    let launcher = ground.await_pods("walk", "launcher", 1)?;
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
    // Somebody removes it: it is made again, because the pods still wait in it.
    ground.api.delete(&format!("{groups}/walk"))?;
    wait_for("another group", SOON, || {
        let again = ground.api.get(&format!("{groups}/walk"))?;
        Ok(again.filter(|again| uid(again) != uid(&group)))
    })?;
    ground.set(&launcher, PodState::Ready)?;
    await_phase(&ground, "walk", "Running")?;
    ground.set(&launcher, PodState::Succeeded)?;
    await_phase(&ground, "walk", "Succeeded")?;
    wait_for("the group to go", SOON, || {
        let group = ground.api.get(&format!("{groups}/walk"))?;
        Ok(group.is_none().then_some(()))
    })?;
    // A cluster may be kept for another run.
    let crd = format!("{CRDS}/podgroups.scheduler.tensorstack.dev");
    ground.api.delete(&crd)
}
