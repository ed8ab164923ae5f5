//! From creation through suspension and running to the end: conditions in their order.

use dialects::Urgency;
use dialects::kubeflow_v2beta1::DIALECT;
use planner::{Status, Verdict};
use serde_json::{Value, json};

use crate::found::{
    CREATED, CREATED_EVENT, Stored, clock, ended, events, running, suspended, waiting,
};

#[test]
fn the_example_of_the_documentation_is_reproduced_whole() {
    let mut job = Stored::new();
    let first = job.step(&waiting(), clock(0));
    assert_eq!(first.urgency, Urgency::Now);
    assert_eq!(events(&first), [CREATED_EVENT]);
    assert_eq!(
        job.status()["replicaStatuses"],
        json!({"Launcher": {}, "Worker": {}})
    );

    let second = job.step(&running(), clock(3));
    assert_eq!(
        events(&second),
        ["Normal MPIJobRunning MPIJob default/tensorflow-benchmarks is running"]
    );
    assert_eq!(
        job.status()["replicaStatuses"],
        json!({"Launcher": {"active": 1}, "Worker": {"active": 2}})
    );

    let last = job.step(&ended(Verdict::Succeeded, clock(75)), clock(75));
    assert_eq!(
        events(&last),
        ["Normal MPIJobSucceeded MPIJob default/tensorflow-benchmarks successfully completed."]
    );
    let mut status = job.status().clone();
    let status = status.as_object_mut().expect("a status is an object");
    assert_eq!(status.remove("observedGeneration"), Some(json!(1)));
    assert!(status.remove("muster").is_some());
    assert_eq!(
        Value::Object(status.clone()),
        json!({
            "completionTime": "2019-07-09T22:17:06Z",
            "conditions": [
                {
                    "lastTransitionTime": "2019-07-09T22:15:51Z",
                    "lastUpdateTime": "2019-07-09T22:15:51Z",
                    "message": "MPIJob default/tensorflow-benchmarks is created.",
                    "reason": "MPIJobCreated",
                    "status": "True",
                    "type": "Created",
                },
                {
                    "lastTransitionTime": "2019-07-09T22:15:54Z",
                    "lastUpdateTime": "2019-07-09T22:15:54Z",
                    "message": "MPIJob default/tensorflow-benchmarks is running.",
                    "reason": "MPIJobRunning",
                    "status": "False",
                    "type": "Running",
                },
                {
                    "lastTransitionTime": "2019-07-09T22:17:06Z",
                    "lastUpdateTime": "2019-07-09T22:17:06Z",
                    "message": "MPIJob default/tensorflow-benchmarks successfully completed.",
                    "reason": "MPIJobSucceeded",
                    "status": "True",
                    "type": "Succeeded",
                },
            ],
            "replicaStatuses": {"Launcher": {"succeeded": 1}, "Worker": {}},
            "startTime": "2019-07-09T22:15:51Z",
        })
    );
}

#[test]
fn a_job_that_was_never_seen_running_says_so_when_it_ends() {
    let mut job = Stored::new();
    job.step(&waiting(), clock(0));
    // The Job's completion time is earlier than our look.
    job.step(&ended(Verdict::Succeeded, clock(7)), clock(9));
    assert_eq!(
        job.conditions(),
        [
            CREATED,
            "Succeeded True MPIJobSucceeded | MPIJob default/tensorflow-benchmarks successfully completed. | 9 9",
            "Running False MPIJobRunning | MPIJob default/tensorflow-benchmarks is finished but Running condition was never set. | 7 7",
        ]
    );
}

#[test]
fn a_job_created_suspended_and_then_run_ends_with_its_conditions_in_order() {
    let mut job = Stored::new();
    let held = job.step(&suspended(), clock(0));
    assert_eq!(
        events(&held),
        [CREATED_EVENT, "Normal MPIJobSuspended MPIJob suspended"]
    );
    assert_eq!(job.status().get("startTime"), None);
    assert_eq!(
        job.conditions(),
        [
            CREATED,
            "Suspended True MPIJobSuspended | MPIJob suspended | 0 0",
            "Running False MPIJobSuspended | MPIJob default/tensorflow-benchmarks is suspended. | 0 0",
        ]
    );
    assert!((DIALECT.recorded)(&job.0).suspended);

    let resumed = job.step(
        &Status {
            started_at: Some(clock(10)),
            ..waiting()
        },
        clock(10),
    );
    assert_eq!(events(&resumed), ["Normal MPIJobResumed MPIJob resumed"]);
    assert_eq!(job.status()["startTime"], "2019-07-09T22:16:01Z");
    let running = Status {
        started_at: Some(clock(10)),
        ..running()
    };
    job.step(&running, clock(12));
    let end = Status {
        started_at: Some(clock(10)),
        ..ended(Verdict::Succeeded, clock(20))
    };
    job.step(&end, clock(20));
    assert_eq!(
        job.conditions(),
        [
            CREATED,
            "Suspended False MPIJobResumed | MPIJob resumed | 10 10",
            "Running False MPIJobRunning | MPIJob default/tensorflow-benchmarks is running. | 12 12",
            "Succeeded True MPIJobSucceeded | MPIJob default/tensorflow-benchmarks successfully completed. | 20 20",
        ]
    );
}

#[test]
fn suspending_a_running_job_withdraws_running_and_keeps_the_start() {
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    let held = Status {
        started_at: Some(clock(0)),
        ..suspended()
    };
    let report = job.step(&held, clock(5));
    assert_eq!(events(&report), ["Normal MPIJobSuspended MPIJob suspended"]);
    assert_eq!(report.urgency, Urgency::Now);
    assert_eq!(job.status()["startTime"], "2019-07-09T22:15:51Z");
    assert_eq!(
        job.conditions(),
        [
            CREATED,
            "Suspended True MPIJobSuspended | MPIJob suspended | 5 5",
            "Running False MPIJobSuspended | MPIJob default/tensorflow-benchmarks is suspended. | 5 5",
        ]
    );
    assert_eq!(job.muster()["phase"], "Suspended");
}
