//! What a job's status says, and what stays at its end: lines 11 and 26 to 31 of the list.

use dialects::Finding;
use dialects::t9k_v1beta1::DIALECT;
use planner::observed::PodPhase;
use planner::{PodNote, Status, fixtures};
use serde_json::{Value, json};

use super::seed::{aggregate, scenario, seed, with};
use crate::driver::Scenario;

#[test]
fn a11_clean_up_takes_the_workers_and_leaves_the_launcher() {
    let mut run = scenario(seed()).running();
    run.launcher_is(PodPhase::Succeeded).at(9).reconcile();
    assert_eq!(
        run.world.workers.len(),
        5,
        "nothing goes before the end is on record"
    );
    run.at(10).reconcile();
    assert_eq!(
        (run.world.workers.len(), run.world.launcher_pods.len()),
        (0, 1)
    );
    assert_eq!(
        (aggregate(&run, "deleted"), aggregate(&run, "succeeded")),
        (5, 1)
    );

    let mut kept = scenario(with(|job| job["spec"]["runPolicy"] = json!({}))).running();
    kept.launcher_is(PodPhase::Succeeded).at(9).reconcile();
    kept.at(10).reconcile();
    assert_eq!(kept.world.workers.len(), 5);
}

#[test]
fn a26_to_a28_conditions_and_phases_are_those_of_the_manual() {
    let mut run = scenario(seed());
    run.reconcile();
    assert_eq!(run.status()["phase"], "Pending");
    assert_eq!(run.holds("Initialized"), Some(true), "T3");
    let mut run = run.running();
    assert_eq!(run.status()["phase"], "Running");
    assert_eq!(
        (run.holds("Running"), run.holds("ReplicaFailure")),
        (Some(true), Some(false))
    );
    let since = run.condition("Running").expect("it runs")["lastTransitionTime"].clone();
    run.at(60).reconcile();
    assert_eq!(
        run.condition("Running").expect("it runs")["lastTransitionTime"],
        since
    );

    run.launcher_is(PodPhase::Succeeded).at(90).reconcile();
    assert_eq!(run.status()["phase"], "Succeeded");
    let ends = ["Completed", "Failed", "Running"].map(|name| run.holds(name));
    assert_eq!(ends, [Some(true), Some(false), Some(false)]);
    for condition in run.status()["conditions"].as_array().expect("conditions") {
        let keys: Vec<&String> = condition.as_object().expect("a condition").keys().collect();
        assert_eq!(
            keys,
            ["lastTransitionTime", "message", "reason", "status", "type"]
        );
    }
    assert!((DIALECT.recorded)(&run.stored).outcome.is_some());
}

#[test]
fn a27_a_launcher_that_fails_fails_the_job() {
    let mut run = scenario(seed()).running();
    run.at(9).launcher_exits(3, "").reconcile();
    assert_eq!(run.status()["phase"], "Failed");
    assert_eq!(
        (run.holds("Failed"), run.holds("Completed")),
        (Some(true), Some(true)),
        "T4"
    );
    let failed = run.condition("Failed").expect("it failed");
    assert_eq!(failed["reason"], "Failed");
    assert!(
        failed["message"]
            .as_str()
            .is_some_and(|said| said.contains("exited with 3"))
    );
    run.at(99).reconcile();
    assert_eq!(run.status()["phase"], "Failed");
}

#[test]
fn a29_a_worker_that_crashes_is_told_of_before_the_end() {
    let mut run = scenario(seed()).running();
    run.world.workers[1].phase = PodPhase::Failed;
    run.at(5).reconcile();
    assert_eq!(run.holds("ReplicaFailure"), Some(true));
    let condition = run.condition("ReplicaFailure").expect("it is told of");
    assert_eq!(condition["reason"], "ErrorInPod");
    assert_eq!(condition["message"], "Pod mpi-example-worker-1 failed.");
    assert_eq!(run.status()["phase"], "Running");
}

#[test]
fn a30_a31_tasks_and_aggregate_tell_of_every_pod() {
    let mut run = scenario(seed()).running();
    run.world.workers[2].restarts = 2;
    run.world.workers[3].restarts = 1;
    run.at(5).reconcile();
    let tasks = &run.status()["tasks"];
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
    let counted =
        |run: &Scenario| ["creating", "pending", "running"].map(|name| aggregate(run, name));
    assert_eq!(counted(&run), [0, 0, 6]);
    assert_eq!(
        run.status()["aggregate"]
            .as_object()
            .map(serde_json::Map::len),
        Some(7)
    );

    let mut fresh = scenario(seed());
    fresh.reconcile();
    assert_eq!(counted(&fresh), [1, 5, 0]);
}

#[test]
fn an_invalid_edit_does_not_forget_when_the_job_started() {
    let mut run = scenario(seed()).running();
    let started = run.status()["muster"]["startTime"].clone();
    run.at(5)
        .edit(|spec| spec["worker"]["replicas"] = json!(-1));
    run.reconcile();
    assert_eq!(run.status()["muster"]["reason"], "Invalid");
    assert_eq!(run.status()["muster"]["startTime"], started);
}

#[test]
fn nothing_is_being_created_for_a_job_that_has_ended() {
    let mut run = scenario(with(|job| {
        job["spec"]["muster"] = json!({"startupTimeoutSeconds": 30});
    }));
    run.reconcile();
    assert_eq!(aggregate(&run, "creating"), 1, "the launcher");
    run.at(30).reconcile();
    assert_eq!(run.status()["phase"], "Failed");
    assert_eq!(aggregate(&run, "creating"), 0);
}

#[test]
fn c15_tasks_of_ten_thousand_pods_fit_into_an_object_and_the_counts_cover_all() {
    const BYTES_MAX: usize = 512 * 1024;
    let large = with(|job| job["spec"]["worker"]["replicas"] = json!(10_000));
    let status = |phase: PodPhase, count: u32| {
        let pods = (0..count).map(|index| PodNote {
            name: format!("mpi-example-worker-{index}"),
            uid: format!("0c7a5a4e-6d0b-4c5e-9f0e-{index:012}"),
            phase: match index {
                7_000 => PodPhase::Failed,
                _ => phase,
            },
            restarts: 0,
            exit_code: None,
        });
        let mut world = fixtures::world((DIALECT.lower)(&large).expect("the job is valid"));
        world.job.lifecycle.suspended = phase == PodPhase::Pending;
        Status {
            pods: pods.collect(),
            ..planner::plan(&world).status
        }
    };
    let report = |stored: &Value, planned: &Status| {
        let job = with(|job| {
            job["spec"]["worker"]["replicas"] = json!(10_000);
            job["status"] = stored.clone();
        });
        (DIALECT.report)(&job, &Finding::Planned(planned), fixtures::noon()).status
    };
    let running = report(&json!({}), &status(PodPhase::Running, 10_000));
    assert!(
        running.to_string().len() < BYTES_MAX,
        "{}",
        running.to_string().len()
    );
    let workers = &running["tasks"][1];
    assert_eq!(workers["omitted"], 9_000);
    let told = workers["status"].as_array().expect("workers are told of");
    assert_eq!(told.len(), 1_000);
    assert_eq!(told[998]["name"], "mpi-example-worker-998");
    assert_eq!(
        told[999]["name"], "mpi-example-worker-7000",
        "what failed is told of"
    );
    assert_eq!(running["aggregate"]["running"], 9_999);

    let partly_gone = report(&running, &status(PodPhase::Pending, 5_000));
    assert_eq!(partly_gone["aggregate"]["pending"], 5_000);
    assert_eq!(partly_gone["aggregate"]["deleted"], 5_000);
    let gone = report(&partly_gone, &status(PodPhase::Pending, 0));
    assert_eq!(gone["aggregate"]["deleted"], 10_000);
    assert_eq!(gone["tasks"][1]["omitted"], 9_000);
}

/// Every pod was once searched for among all others.
#[test]
fn c02_a_report_of_every_pod_takes_time_by_their_number() {
    let growth = fixtures::growth(1_000, |count| {
        let job = with(|job| job["spec"]["worker"]["replicas"] = json!(count));
        let mut world = fixtures::world((DIALECT.lower)(&job).expect("the job is valid"));
        world.workers = (0..count)
            .map(|index| fixtures::pod(&world.job.worker_name(index)))
            .collect();
        let status = planner::plan(&world).status;
        Box::new(move || {
            (DIALECT.report)(&job, &Finding::Planned(&status), fixtures::noon());
        })
    });
    assert!(growth < 5.0, "{growth:.1}");
}
