//! What clients see of a job's status: how late it may be, and that it never gets in the way of a client
//! that edits.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, FAILED, PodState, SOON};
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;
use super::lifecycle::await_counters;

/// One second is promised; the rest is for a machine that does ten other things.
const LATE_MAX: Duration = Duration::from_secs(3);

/// Replaces the job with one that `edit` made of this copy, as clients with a typed copy do.
fn update(fixture: &ApiFixture, job: &Value, edit: impl Fn(&mut Value)) -> Result<Value> {
    let mut edited = job.clone();
    edit(&mut edited);
    let name = job["metadata"]["name"].as_str().context("no name")?;
    let path = fixture.path("mpijobs", name);
    fixture.api.send("PUT", &path, Some(&edited))?.accepted()
}

#[test]
fn v01_a_client_that_edits_and_resumes_without_reading_does_not_conflict() -> Result<()> {
    let fixture = new_fixture("clients")?;
    let _operator = fixture.operator()?;
    for (round, pause_millis) in [0, 25, 50, 100, 300, 1_000].into_iter().enumerate() {
        let name = format!("queued-{round}");
        let job = MpiJob::named(&name).workers(2);
        fixture.submit(&job.suspended())?;
        fixture.await_condition(&name, "Suspended")?;
        let job = await_counters(&fixture, &name, &json!({"Launcher": {}, "Worker": {}}))?;
        let edited = update(&fixture, &job, |job| {
            job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 3.into();
        })?;
        thread::sleep(Duration::from_millis(pause_millis));
        let resumed = update(&fixture, &edited, |job| {
            job["spec"]["runPolicy"]["suspend"] = false.into();
        });
        resumed.with_context(|| format!("after {pause_millis} ms"))?;
        fixture.await_pods(&name, "worker", 3)?;
        fixture.await_job(&name, "its generation to be seen", SOON, |job| {
            job["status"]["observedGeneration"] == job["metadata"]["generation"]
        })?;
    }
    Ok(())
}

/// The kubelet carries the annotation into the pod, where the agent reads it.
#[test]
fn v02_a_launcher_that_runs_is_told_that_a_worker_ended() -> Result<()> {
    let fixture = new_fixture("clients")?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("lost").workers(2))?;
    fixture.run("lost", 2)?;
    fixture.await_condition("lost", "Running")?;
    let workers = fixture.await_pods("lost", "worker", 2)?;
    fixture.set(&workers[1..], FAILED)?;
    wait_for("the launcher to be told", SOON, || {
        let launcher = fixture.await_pods("lost", "launcher", 1)?;
        let list = &launcher[0]["metadata"]["annotations"]["muster.dev/hosts"];
        let list = list.as_str().unwrap_or_default();
        let told =
            list.contains("lost-worker-0 192.0.2.1\n") && list.contains("lost-worker-1 ended\n");
        Ok(told.then_some(()))
    })
}

#[test]
fn v03_workers_that_run_are_counted_within_a_second() -> Result<()> {
    let fixture = new_fixture("clients")?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("seen").workers(2))?;
    let workers = fixture.await_pods("seen", "worker", 2)?;
    // No condition changes with them: the launcher does not run.
    for (ready, pod) in workers.iter().enumerate() {
        fixture.set(std::slice::from_ref(pod), PodState::Ready)?;
        let begun = Instant::now();
        let counted = json!({"active": ready + 1});
        fixture.await_job("seen", "the worker to be counted", SOON, |job| {
            job["status"]["replicaStatuses"]["Worker"] == counted
        })?;
        ensure!(begun.elapsed() < LATE_MAX, "{:?}", begun.elapsed());
    }
    Ok(())
}
