//! How a job ends, and what stays as it was recorded, whoever recorded it.

use dialects::kubeflow_v2beta1::DIALECT;
use dialects::{FieldError, Finding, Urgency};
use planner::{Phase, Reason, Status, Verdict};
use serde_json::{Value, json};

use crate::found::{
    CREATED, Stored, clock, count, ended, events, failed, running, suspended, waiting,
};

#[test]
fn a_failure_carries_the_reason_and_message_it_was_given() {
    let reason = "BackoffLimitExceeded/FailedReason2";
    let message = "Job has reached the specified backoff limit: second message";
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    let end = Status {
        launcher: Some(count(0, 0, 2)),
        reason: Some(Reason::OutOfMemory),
        message: message.to_owned(),
        ..ended(failed(reason, message), clock(4))
    };
    let report = job.step(&end, clock(4));
    assert_eq!(events(&report), [format!("Warning {reason} {message}")]);
    assert_eq!(
        job.conditions(),
        [
            CREATED.to_owned(),
            "Running False MPIJobRunning | MPIJob default/tensorflow-benchmarks is running. | 0 0"
                .to_owned(),
            format!("Failed True {reason} | {message} | 4 4"),
        ]
    );
    assert_eq!(
        job.status()["replicaStatuses"],
        json!({"Launcher": {"failed": 2}, "Worker": {}})
    );
    assert_eq!(job.status()["completionTime"], "2019-07-09T22:15:55Z");
    let muster = job.muster();
    assert_eq!(
        (&muster["phase"], &muster["finished"]),
        (&json!("Failed"), &json!(true))
    );
    assert_eq!(muster["reason"], "OutOfMemory");
    let recorded = (DIALECT.recorded)(&job.0)
        .outcome
        .expect("the outcome is recorded");
    assert_eq!(recorded.verdict, failed(reason, message));
}

#[test]
fn an_eviction_is_a_failure_with_its_own_reason() {
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    let end = ended(failed("MPIJobEvicted", "1/2 workers are evicted"), clock(4));
    let report = job.step(&end, clock(4));
    assert_eq!(
        events(&report),
        ["Warning MPIJobEvicted 1/2 workers are evicted"]
    );
    assert_eq!(
        job.conditions()[2],
        "Failed True MPIJobEvicted | 1/2 workers are evicted | 4 4"
    );
}

#[test]
fn success_withdraws_an_eviction_that_another_operator_recorded() {
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    let stored = job.0["status"]["conditions"]
        .as_array_mut()
        .expect("conditions are a list");
    stored.push(json!({
        "type": "Failed", "status": "True", "reason": "MPIJobEvicted",
        "message": "1/2 workers are evicted",
        "lastUpdateTime": "2019-07-09T22:15:53Z", "lastTransitionTime": "2019-07-09T22:15:53Z",
    }));
    assert_eq!(
        (DIALECT.recorded)(&job.0).outcome,
        None,
        "there is no completion time"
    );
    job.step(&ended(Verdict::Succeeded, clock(9)), clock(9));
    assert_eq!(
        job.conditions()[2],
        "Failed False MPIJobEvicted | 1/2 workers are evicted | 2 2"
    );
    assert!(job.conditions()[3].starts_with("Succeeded True"));
}

#[test]
fn another_reason_for_the_same_status_keeps_the_transition_time() {
    let mut job = Stored::new();
    job.step(&waiting(), clock(0));
    let stored = job.0["status"]["conditions"]
        .as_array_mut()
        .expect("conditions are a list");
    stored.push(json!({
        "type": "Failed", "status": "True", "reason": "MPIJobEvicted",
        "message": "1/2 workers are evicted",
        "lastUpdateTime": "2019-07-09T22:15:53Z", "lastTransitionTime": "2019-07-09T22:15:53Z",
    }));
    job.step(
        &ended(failed("DeadlineExceeded", "too long"), clock(9)),
        clock(9),
    );
    assert_eq!(
        job.conditions()[1],
        "Failed True DeadlineExceeded | too long | 9 2"
    );
}

#[test]
fn a_completion_time_that_is_set_already_stays() {
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    job.0["status"]["completionTime"] = "2019-07-09T22:16:00Z".into();
    job.step(&ended(Verdict::Succeeded, clock(20)), clock(20));
    assert_eq!(job.status()["completionTime"], "2019-07-09T22:16:00Z");
}

#[test]
fn a_recorded_outcome_stands_whatever_is_found_later() {
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    job.step(&ended(Verdict::Succeeded, clock(5)), clock(5));
    let before = job.status().clone();
    job.0["metadata"]["generation"] = 2.into();

    let error = FieldError {
        path: "spec.x".to_owned(),
        problem: "is wrong".to_owned(),
    };
    for finding in [
        Finding::Planned(&running()),
        Finding::Planned(&suspended()),
        Finding::Planned(&ended(failed("Other", "later"), clock(99))),
        Finding::Invalid(&[error]),
    ] {
        let report = (DIALECT.report)(&job.0, &finding, clock(100));
        let mut expected = before.clone();
        expected["observedGeneration"] = 2.into();
        assert_eq!(
            (report.status, report.events),
            (expected, Vec::new()),
            "{finding:?}"
        );
        assert_eq!(report.urgency, Urgency::Edit, "the generation moved");
    }
}

#[test]
fn a_job_that_another_operator_finished_stays_as_it_is() {
    let mut job = Stored::new();
    job.step(&ended(Verdict::Succeeded, clock(5)), clock(5));
    let status = job.0["status"]
        .as_object_mut()
        .expect("a status is an object");
    status.remove("muster");
    let before = Value::Object(status.clone());
    let found = Status {
        phase: Phase::Finished,
        ..ended(Verdict::Succeeded, clock(5))
    };
    let report = job.step(&found, clock(900));
    let told = (report.urgency, report.events.len());
    assert_eq!(told, (Urgency::Unchanged, 0));
    assert_eq!(report.status, before);
}
