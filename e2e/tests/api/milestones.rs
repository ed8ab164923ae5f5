//! The past of a job in its status: from what pods say, with no write of its own, and still there when they are
//! gone. And what hostile pods can put there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, name};
use e2e::audit::Audit;
use e2e::jobs::MpiJob;
use e2e::wait_for;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// The late worker is ready when its pod is this old.
const LATE_SECS: i64 = 8;
/// An operator that has nothing to write within this time has nothing to write.
const SETTLED: Duration = Duration::from_secs(5);

fn created(pod: &Value) -> Result<Timestamp> {
    let text = pod["metadata"]["creationTimestamp"]
        .as_str()
        .context("every pod was created")?;
    Ok(text.parse()?)
}

/// A pod that got how far at these seconds of its life: scheduled, with a network, begun, Ready.
fn started(pod: &Value, at: [i64; 4]) -> Result<Value> {
    let created = created(pod)?;
    let [scheduled, network, begun, ready] =
        at.map(|secs| created + SignedDuration::from_secs(secs));
    let condition = |kind: &str, at: Timestamp| json!({"type": kind, "status": "True", "lastTransitionTime": at});
    Ok(json!({
        "phase": "Running", "podIP": "192.0.2.1",
        "conditions": [
            condition("PodScheduled", scheduled), condition("Initialized", scheduled),
            condition("PodReadyToStartContainers", network), condition("Ready", ready),
        ],
        "containerStatuses": [{
            "name": pod["spec"]["containers"][0]["name"], "image": "i", "imageID": "",
            "ready": true, "restartCount": 0, "state": {"running": {"startedAt": begun}},
        }],
    }))
}

fn put(fixture: &ApiFixture, pod: &Value, status: &Value) -> Result<()> {
    let path = format!("{}/status", fixture.path("pods", name(pod)));
    fixture.api.merge(&path, &json!({"status": status}))?;
    Ok(())
}

fn muster(fixture: &ApiFixture, job: &str) -> Result<Value> {
    Ok(fixture.job(job)?["status"]["muster"].clone())
}

#[test]
fn a_job_whose_pods_are_gone_still_tells_which_worker_was_late() -> Result<()> {
    let fixture = new_fixture("milestones")?;
    let operator = fixture.operator()?;
    let job = MpiJob::named("slow").workers(4).clean_pod_policy("All");
    fixture.submit(&job)?;
    let workers = fixture.await_pods("slow", "worker", 4)?;
    let (late, others) = workers.split_first().context("there are workers")?;
    for pod in others {
        put(&fixture, pod, &started(pod, [0, 0, 1, 1])?)?;
    }
    wait_for("a worker that is late", SOON, || {
        let age = Timestamp::now().duration_since(created(late)?);
        Ok((age.as_secs() > LATE_SECS).then_some(()))
    })?;
    put(
        &fixture,
        late,
        &started(late, [0, 0, LATE_SECS - 1, LATE_SECS])?,
    )?;
    for launcher in &fixture.await_pods("slow", "launcher", 1)? {
        // It began when the last worker had answered, as it does when it waits for them.
        put(
            &fixture,
            launcher,
            &started(launcher, [0, 0, LATE_SECS, LATE_SECS])?,
        )?;
    }
    fixture.await_condition("slow", "Running")?;
    fixture.finish("slow")?;
    let over = fixture.await_condition("slow", "Succeeded")?;
    fixture.await_pods("slow", "worker", 0)?;

    let told = muster(&fixture, "slow")?;
    let at = |secs: i64| -> Result<Value> {
        Ok(json!(created(late)? + SignedDuration::from_secs(secs)))
    };
    let milestones = &told["milestones"];
    ensure!(milestones["imagesReady"] == at(LATE_SECS - 1)?, "{told:#}");
    ensure!(milestones["workersReady"] == at(LATE_SECS)?, "{told:#}");
    ensure!(
        milestones["ended"] == over["status"]["completionTime"],
        "{told:#}"
    );
    let slowest = json!([{"worker": name(late), "phase": "Pulling", "seconds": LATE_SECS - 1}]);
    ensure!(told["slowest"] == slowest, "{told:#}");
    operator.assert_alive()
}

#[test]
fn a_time_that_only_milestones_tell_of_is_not_written_by_itself() -> Result<()> {
    let fixture = new_fixture("milestones-quiet")?;
    let operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("quiet").workers(2))?;
    fixture.run("quiet", 2)?;
    fixture.await_condition("quiet", "Running")?;
    std::thread::sleep(SETTLED);
    let audit = Audit::from_now(&fixture.cluster)?;
    for pod in &fixture.await_pods("quiet", "worker", 2)? {
        put(&fixture, pod, &started(pod, [0, 0, 0, 0])?)?;
    }
    std::thread::sleep(SETTLED);
    let writes = audit.writes_of(&fixture.account.user)?;
    ensure!(writes.is_empty(), "{writes:?}");
    // What is written for another reason has them.
    fixture.finish("quiet")?;
    fixture.await_condition("quiet", "Succeeded")?;
    let told = muster(&fixture, "quiet")?;
    ensure!(told["milestones"]["workersReady"].is_string(), "{told:#}");
    operator.assert_alive()
}

/// Whoever may write pods may write such a status. The API server refuses a status of the job with times that
/// it cannot read, or numbers that do not fit.
#[test]
fn hostile_pods_do_not_keep_a_job_from_its_end() -> Result<()> {
    let fixture = new_fixture("milestones-hostile")?;
    let operator = fixture.operator()?;
    let job = MpiJob::named("odd")
        .workers(2)
        .with("/spec/muster/transport", "Agent");
    fixture.submit(&job)?;
    for pod in &fixture.await_pods("odd", "worker", 2)? {
        let mut status = started(pod, [0, 0, 0, 0])?;
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = "9999-12-30T00:00:00Z".into();
        }
        status["containerStatuses"][0]["state"]["running"]["startedAt"] =
            "0001-01-01T00:00:00Z".into();
        put(&fixture, pod, &status)?;
    }
    let launcher = fixture.await_pods("odd", "launcher", 1)?;
    fixture.set(&launcher, PodState::Ready)?;
    let report = json!({
        "muster": 1, "verdict": "Succeeded", "exit": 0, "attempts": u32::MAX, "beganMs": u64::MAX,
        "ranksStartedMs": i64::MAX, "message": "so it was",
        "earlier": [{"attempt": u32::MAX, "reason": "RankKilled", "seconds": u64::MAX, "beganMs": 1}],
    });
    let pod = launcher.first().context("there is a launcher")?;
    let ended = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "message": report.to_string(),
        "startedAt": pod["metadata"]["creationTimestamp"], "finishedAt": "9999-12-30T00:00:00Z",
    }});
    put(
        &fixture,
        pod,
        &json!({"phase": "Succeeded", "containerStatuses": [{
            "name": pod["spec"]["containers"][0]["name"], "image": "i", "imageID": "", "ready": false,
            "restartCount": i32::MAX, "state": ended,
        }]}),
    )?;
    let over = fixture.await_condition("odd", "Succeeded")?;
    let told = &over["status"]["muster"]["milestones"];
    for name in ["scheduled", "imagesReady", "workersReady", "ranksStarted"] {
        ensure!(told[name].is_null(), "{name}: {told:#}");
    }
    operator.assert_alive()
}
