//! Pods as kubelets write them, and when they got how far.

use planner::{LauncherRun, PodStart};
use serde_json::{Value, json};

use super::*;
use crate::wire::child;

const CREATED: &str = "2026-01-02T03:04:05Z";

/// As many seconds after the pod was made.
fn at(seconds: i64) -> Timestamp {
    let created: Timestamp = CREATED.parse().expect("this is a timestamp");
    created + SignedDuration::from_secs(seconds)
}

fn read(role: &str, status: &Value) -> observed::Pod {
    let object = json!({"kind": "Pod", "status": status, "spec": {"containers": [{"name": "main"}]},
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "creationTimestamp": CREATED, "labels": {"training.kubeflow.org/job-role": role}}});
    let child = child(&planner::Kind::Pod, &object.to_string()).expect("the pod can be read");
    let facts = child.facts.pod().expect("a pod is a pod");
    facts.pod(&child, false)
}

fn condition(kind: &str, status: &str, seconds: i64) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": at(seconds)})
}

#[test]
fn a_pod_that_runs_tells_of_its_start() {
    let ended = |from: i64, to: i64| json!({"terminated": {"exitCode": 0, "startedAt": at(from), "finishedAt": at(to)}});
    let running = |from: i64| json!({"running": {"startedAt": at(from)}});
    let status = json!({
        "phase": "Running",
        "conditions": [
            condition("PodScheduled", "True", 1),
            condition("PodReadyToStartContainers", "True", 3),
            condition("Initialized", "True", 20),
            condition("ContainersReady", "True", 44),
            condition("Ready", "True", 45),
        ],
        "initContainerStatuses": [{"name": "a", "state": ended(10, 19)}],
        "containerStatuses": [
            {"name": "main", "state": running(40)},
            {"name": "side", "state": running(31)},
        ],
    });
    let start = PodStart {
        scheduled_at: Some(at(1)),
        sandbox_at: Some(at(3)),
        first_begun_at: Some(at(10)),
        initialized_at: Some(at(20)),
        begun_at: Some(at(40)),
        ready_at: Some(at(45)),
    };
    let worker = read("worker", &status);
    assert_eq!(worker.start, start);
    assert_eq!(worker.runs, [], "only launchers have attempts");
}

#[test]
fn what_is_not_true_has_not_happened_and_clocks_may_differ() {
    let status = json!({
        "phase": "Pending",
        "conditions": [
            condition("PodScheduled", "True", -7),
            condition("PodReadyToStartContainers", "False", 3),
            condition("Initialized", "False", 1),
            condition("Ready", "False", 1),
        ],
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}],
    });
    let start = PodStart {
        scheduled_at: Some(at(0)),
        ..PodStart::default()
    };
    assert_eq!(read("worker", &status).start, start);
}

/// Anybody who may write pods may write their status.
#[test]
fn times_that_are_not_possible_are_none() {
    let mut far = condition("PodScheduled", "True", 0);
    far["lastTransitionTime"] = "9999-12-30T20:00:00Z".into();
    let status = json!({"conditions": [far, {"type": "Ready", "status": "True"}]});
    assert_eq!(read("worker", &status).start, PodStart::default());
}

#[test]
fn a_launcher_tells_of_its_run_and_of_the_one_before() {
    let said = r#"{"muster":1,"verdict":"RankFailed","exit":137,"hosts":2,"signal":9,"attempts":2,
        "earlier":[{"attempt":1,"reason":"RankKilled","seconds":5}],"message":"so it was"}"#;
    let said = said.replace('\n', " ");
    let status = json!({"phase": "Running", "containerStatuses": [
        {"name": "a-sidecar", "restartCount": 0, "state": {"running": {"startedAt": at(2)}}},
        {"name": "main", "restartCount": 4,
         "state": {"running": {"startedAt": at(60)}},
         "lastState": {"terminated": {"exitCode": 137, "reason": "Error", "message": said,
            "startedAt": at(30), "finishedAt": at(50)}}},
    ]});
    let runs = read("launcher", &status).runs;
    let [before, now] = &runs[..] else {
        panic!("{runs:?}");
    };
    let end = before.end.as_ref().expect("it ended");
    assert_eq!((before.began_at, before.runs_before), (at(30), 3));
    assert_eq!(
        (end.at, end.attempts, end.earlier.len()),
        (Some(at(50)), 2, 1)
    );
    assert_eq!(end.reason, Some(planner::Reason::RankKilled));
    let running = LauncherRun {
        began_at: at(60),
        runs_before: 4,
        end: None,
    };
    assert_eq!(now, &running);
}

#[test]
fn a_launcher_that_has_not_begun_has_no_run() {
    let waiting = json!({"name": "main", "restartCount": -3, "state": {"waiting": {}}});
    for status in [json!({}), json!({"containerStatuses": [waiting]})] {
        assert_eq!(read("launcher", &status).runs, []);
    }
}
