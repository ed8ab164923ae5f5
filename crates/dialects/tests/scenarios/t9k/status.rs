//! What a job's status says, and what stays at its end: lines 11 and 26 to 31 of the list.

use dialects::t9k_v1beta1::DIALECT;
use planner::observed::{Exit, PodPhase};
use serde_json::json;

use super::life::{Life, seed, with};

#[test]
fn a11_clean_up_takes_the_workers_and_leaves_the_launcher() {
    let mut life = Life::of(seed()).running();
    life.launcher_is(PodPhase::Succeeded).at(9).pass();
    assert_eq!(
        life.world.workers.len(),
        5,
        "nothing goes before the end is on record"
    );
    life.at(10).pass();
    assert_eq!(
        (life.world.workers.len(), life.world.launcher_pods.len()),
        (0, 1)
    );
    assert_eq!(
        (life.aggregate("deleted"), life.aggregate("succeeded")),
        (5, 1)
    );

    let mut kept = Life::of(with(|job| job["spec"]["runPolicy"] = json!({}))).running();
    kept.launcher_is(PodPhase::Succeeded).at(9).pass();
    kept.at(10).pass();
    assert_eq!(kept.world.workers.len(), 5);
}

#[test]
fn a26_to_a28_conditions_and_phases_are_those_of_the_manual() {
    let mut life = Life::of(seed());
    life.pass();
    assert_eq!(life.status()["phase"], "Pending");
    assert_eq!(life.holds("Initialized"), Some(true), "T3");
    let mut life = life.running();
    assert_eq!(life.status()["phase"], "Running");
    assert_eq!(
        (life.holds("Running"), life.holds("ReplicaFailure")),
        (Some(true), Some(false))
    );
    let since = life.condition("Running").expect("it runs")["lastTransitionTime"].clone();
    life.at(60).pass();
    assert_eq!(
        life.condition("Running").expect("it runs")["lastTransitionTime"],
        since
    );

    life.launcher_is(PodPhase::Succeeded).at(90).pass();
    assert_eq!(life.status()["phase"], "Succeeded");
    let ends = ["Completed", "Failed", "Running"].map(|name| life.holds(name));
    assert_eq!(ends, [Some(true), Some(false), Some(false)]);
    for condition in life.status()["conditions"].as_array().expect("conditions") {
        let keys: Vec<&String> = condition.as_object().expect("a condition").keys().collect();
        assert_eq!(
            keys,
            ["lastTransitionTime", "message", "reason", "status", "type"]
        );
    }
    assert!((DIALECT.recorded)(&life.stored).outcome.is_some());
}

#[test]
fn a27_a_launcher_that_fails_fails_the_job() {
    let mut life = Life::of(seed()).running();
    life.world.launcher_pods[0].exit = Some(Exit {
        container: "mpi-launcher".to_owned(),
        code: 3,
        reason: "Error".to_owned(),
        message: String::new(),
    });
    life.launcher_is(PodPhase::Failed).at(9).pass();
    assert_eq!(life.status()["phase"], "Failed");
    assert_eq!(
        (life.holds("Failed"), life.holds("Completed")),
        (Some(true), Some(true)),
        "T4"
    );
    let failed = life.condition("Failed").expect("it failed");
    assert_eq!(failed["reason"], "Failed");
    assert!(
        failed["message"]
            .as_str()
            .is_some_and(|said| said.contains("exited with 3"))
    );
    life.at(99).pass();
    assert_eq!(life.status()["phase"], "Failed");
}

#[test]
fn a29_a_worker_that_crashes_is_told_of_before_the_end() {
    let mut life = Life::of(seed()).running();
    life.world.workers[1].phase = PodPhase::Failed;
    life.at(5).pass();
    assert_eq!(life.holds("ReplicaFailure"), Some(true));
    let condition = life.condition("ReplicaFailure").expect("it is told of");
    assert_eq!(condition["reason"], "ErrorInPod");
    assert_eq!(condition["message"], "Pod mpi-example-worker-1 failed.");
    assert_eq!(life.status()["phase"], "Running");
}

#[test]
fn a30_a31_tasks_and_aggregate_tell_of_every_pod() {
    let mut life = Life::of(seed()).running();
    life.world.workers[2].restarts = 2;
    life.world.workers[3].restarts = 1;
    life.at(5).pass();
    let tasks = &life.status()["tasks"];
    assert_eq!(tasks[0]["type"], "launcher");
    assert_eq!(tasks[0]["status"][0]["name"], "mpi-example-launcher");
    assert_eq!(
        (&tasks[1]["type"], &tasks[1]["restartCount"]),
        (&json!("worker"), &json!(3))
    );
    let third = &tasks[1]["status"][2];
    let expected = json!({"phase": "Running", "name": "mpi-example-worker-2",
        "uid": "uid-mpi-example-worker-2", "containers": []});
    assert_eq!(*third, expected, "T6");
    let counted = |life: &Life| ["creating", "pending", "running"].map(|name| life.aggregate(name));
    assert_eq!(counted(&life), [0, 0, 6]);
    assert_eq!(
        life.status()["aggregate"]
            .as_object()
            .map(serde_json::Map::len),
        Some(7)
    );

    let mut fresh = Life::of(seed());
    fresh.pass();
    assert_eq!(counted(&fresh), [1, 5, 0]);
}
