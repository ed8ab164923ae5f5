//! The life of jobs as their status tells it: each step reports what the planner found, stores
//! the answer, and compares conditions, counters, times and events with what Kubeflow's clients
//! expect.

use dialects::kubeflow_v2beta1::DIALECT;
use dialects::{FieldError, Finding, Report, Urgency};
use jiff::Timestamp;
use planner::job::Transport;
use planner::{Count, Outcome, Phase, Reason, Status, Verdict};
use serde_json::{Value, json};

fn at(text: &str) -> Timestamp {
    text.parse().expect("this is a timestamp")
}

/// 22:15:51 and so many seconds, on the day of the documentation's example.
fn clock(secs: i64) -> Timestamp {
    at("2019-07-09T22:15:51.9Z") + jiff::SignedDuration::from_secs(secs)
}

fn count(active: u32, succeeded: u32, failed: u32) -> Count {
    Count {
        active,
        succeeded,
        failed,
    }
}

fn waiting() -> Status {
    Status {
        phase: Phase::Gathering,
        reason: Some(Reason::WaitingForWorkers),
        message: "0 of 2 workers run".to_owned(),
        transport: Transport::Ssh,
        suspended: false,
        running: false,
        started_at: Some(clock(0)),
        outcome: None,
        launcher: Some(Count::default()),
        workers: Count::default(),
        ready: 0,
        wanted: 2,
        restarts: 0,
        replaced: None,
        pods: Vec::new(),
    }
}

fn running() -> Status {
    Status {
        phase: Phase::Running,
        reason: None,
        message: "launcher and workers run".to_owned(),
        running: true,
        launcher: Some(count(1, 0, 0)),
        workers: count(2, 0, 0),
        ready: 2,
        ..waiting()
    }
}

fn suspended() -> Status {
    Status {
        phase: Phase::Suspended,
        reason: Some(Reason::Suspended),
        message: "MPIJob suspended".to_owned(),
        suspended: true,
        started_at: None,
        ..waiting()
    }
}

fn ended(verdict: Verdict, when: Timestamp) -> Status {
    Status {
        phase: Phase::Finishing,
        reason: None,
        message: "the launcher ended with 0".to_owned(),
        outcome: Some(Outcome { verdict, at: when }),
        launcher: Some(count(0, 1, 0)),
        ready: 2,
        ..waiting()
    }
}

fn blocked(reason: Reason, message: &str) -> Status {
    Status {
        phase: Phase::Blocked,
        reason: Some(reason),
        message: message.to_owned(),
        ..waiting()
    }
}

fn failed(reason: &str, message: &str) -> Verdict {
    Verdict::Failed {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// A job and its status as stored.
struct Stored(Value);

impl Stored {
    fn new() -> Self {
        Self(json!({
            "metadata": {"name": "tensorflow-benchmarks", "namespace": "default", "generation": 1},
        }))
    }

    fn step(&mut self, status: &Status, now: Timestamp) -> Report {
        self.find(&Finding::Planned(status), now)
    }

    fn find(&mut self, finding: &Finding<'_>, now: Timestamp) -> Report {
        let report = (DIALECT.report)(&self.0, finding, now);
        self.0["status"] = report.status.clone();
        let again = (DIALECT.report)(&self.0, finding, now + jiff::SignedDuration::from_secs(60));
        assert_eq!(
            again.urgency,
            Urgency::Unchanged,
            "a report repeats itself: {again:?}"
        );
        assert_eq!(again.events, [], "an event repeats itself");
        report
    }

    fn status(&self) -> &Value {
        &self.0["status"]
    }

    fn muster(&self) -> &Value {
        &self.status()["muster"]
    }

    /// `Type Status Reason Message update transition`, a line each, times as seconds of the clock.
    fn conditions(&self) -> Vec<String> {
        let items = self.status()["conditions"]
            .as_array()
            .expect("conditions are a list");
        let text = |item: &Value, key: &str| item[key].as_str().expect("a text").to_owned();
        let second =
            |item: &Value, key: &str| at(&text(item, key)).as_second() - clock(0).as_second();
        let line = |item: &Value| {
            format!(
                "{} {} {} | {} | {} {}",
                text(item, "type"),
                text(item, "status"),
                text(item, "reason"),
                text(item, "message"),
                second(item, "lastUpdateTime"),
                second(item, "lastTransitionTime"),
            )
        };
        items.iter().map(line).collect()
    }
}

/// `Normal|Warning Reason message`, a line each.
fn events(report: &Report) -> Vec<String> {
    let kind = |warning| if warning { "Warning" } else { "Normal" };
    let line = |event: &dialects::Event| {
        format!("{} {} {}", kind(event.warning), event.reason, event.message)
    };
    report.events.iter().map(line).collect()
}

const CREATED: &str =
    "Created True MPIJobCreated | MPIJob default/tensorflow-benchmarks is created. | 0 0";
const CREATED_EVENT: &str = "Normal MPIJobCreated MPIJob default/tensorflow-benchmarks is created.";

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
        assert_eq!(report.urgency, Urgency::Now, "the generation moved");
    }
}

#[test]
fn a_job_that_another_operator_finished_only_gains_our_part() {
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
    let mut report = job.step(&found, clock(900));
    assert_eq!((report.urgency, report.events.len()), (Urgency::Now, 0));
    let ours = report
        .status
        .as_object_mut()
        .expect("a status is an object")
        .remove("muster");
    assert_eq!(report.status, before);
    assert_eq!(ours.expect("our part is there")["phase"], "Succeeded");
}

#[test]
fn another_spelling_of_the_same_start_is_no_difference() {
    let mut job = Stored::new();
    job.step(&waiting(), clock(0));
    job.0["status"]["startTime"] = "2019-07-09T22:15:51+00:00".into();
    let report = job.step(&waiting(), clock(1));
    assert_eq!(report.urgency, Urgency::Unchanged);
}

#[test]
fn progress_may_wait_and_news_may_not() {
    let mut job = Stored::new();
    job.step(&waiting(), clock(0));
    let progress = Status {
        workers: count(1, 0, 0),
        ready: 1,
        message: "1 of 2 workers run".to_owned(),
        reason: Some(Reason::PullingImage),
        ..waiting()
    };
    let report = job.step(&progress, clock(1));
    assert_eq!(
        (report.urgency, report.events.len()),
        (Urgency::WhenQuiet, 0)
    );
    assert_eq!(job.muster()["ready"], "1/2");
    assert_eq!(job.step(&running(), clock(2)).urgency, Urgency::Now);
}

#[test]
fn the_launcher_has_no_entry_before_its_job_exists() {
    let mut job = Stored::new();
    job.step(
        &Status {
            launcher: None,
            ..waiting()
        },
        clock(0),
    );
    assert_eq!(job.status()["replicaStatuses"], json!({"Worker": {}}));
}

#[test]
fn an_overridden_restart_policy_is_announced_with_the_job() {
    let mut job = Stored::new();
    job.0["spec"] = json!({"mpiReplicaSpecs": {
        "Launcher": {"template": {"spec": {"restartPolicy": "Always"}}},
    }});
    let report = job.step(&waiting(), clock(0));
    assert_eq!(
        events(&report),
        [
            CREATED_EVENT,
            "Warning SetPodTemplateRestartPolicy Restart policy in pod template overridden by restart policy in replica spec",
        ]
    );
}

#[test]
fn what_stands_in_the_way_is_said_once_and_taken_back() {
    let taken = r#"Resource "pi" of Kind "Service" already exists and is not managed by MPIJob"#;
    let mut job = Stored::new();
    let report = job.step(&blocked(Reason::NameTaken, taken), clock(0));
    assert_eq!(
        events(&report),
        [
            CREATED_EVENT.to_owned(),
            format!("Warning ErrResourceExists {taken}")
        ]
    );
    let muster = job.muster();
    assert_eq!(
        (&muster["phase"], &muster["reason"]),
        (&json!("Waiting"), &json!("NameTaken"))
    );
    assert_eq!(
        muster["conditions"],
        json!([{
            "type": "Accepted", "status": "False", "reason": "NameTaken", "message": taken,
            "lastTransitionTime": "2019-07-09T22:15:51Z", "observedGeneration": 1,
        }])
    );

    let quota = "worker pod created failed: exceeded quota: gpu (1 of 2 workers exist)";
    let report = job.step(&blocked(Reason::QuotaExceeded, quota), clock(3));
    assert_eq!(events(&report), [format!("Warning MPIJobFailed {quota}")]);
    assert_eq!(report.urgency, Urgency::Now);
    let since = &job.muster()["conditions"][0]["lastTransitionTime"];
    assert_eq!(
        since, "2019-07-09T22:15:51Z",
        "it was not accepted before either"
    );

    let report = job.step(&waiting(), clock(6));
    assert_eq!(events(&report), [""; 0]);
    let accepted = &job.muster()["conditions"][0];
    assert_eq!(
        (&accepted["status"], &accepted["reason"]),
        (&json!("True"), &json!("Accepted"))
    );
    assert_eq!(accepted["lastTransitionTime"], "2019-07-09T22:15:57Z");
}

#[test]
fn an_invalid_job_is_told_so_in_its_status_and_by_one_event() {
    let error = |path: &str| FieldError {
        path: path.to_owned(),
        problem: "is wrong".to_owned(),
    };
    let mut job = Stored::new();
    let errors = [error("spec.a"), error("spec.b")];
    let report = job.find(&Finding::Invalid(&errors), clock(0));
    assert_eq!(
        events(&report),
        ["Warning ValidationError Found validation errors: [spec.a: is wrong, spec.b: is wrong]"]
    );
    assert_eq!(report.urgency, Urgency::Now);
    assert_eq!(
        job.status(),
        &json!({
            "observedGeneration": 1,
            "muster": {
                "dialect": "v2beta1",
                "phase": "Waiting",
                "reason": "Invalid",
                "message": "[spec.a: is wrong, spec.b: is wrong]",
                "finished": false,
                "conditions": [{
                    "type": "Accepted", "status": "False", "reason": "Invalid",
                    "message": "[spec.a: is wrong, spec.b: is wrong]",
                    "lastTransitionTime": "2019-07-09T22:15:51Z", "observedGeneration": 1,
                }],
            },
        })
    );
    assert!(!(DIALECT.recorded)(&job.0).seen);

    let report = job.find(&Finding::Invalid(&errors[..1]), clock(2));
    assert_eq!(
        events(&report),
        ["Warning ValidationError Found validation errors: spec.a: is wrong"]
    );

    let report = job.step(
        &Status {
            started_at: Some(clock(4)),
            ..waiting()
        },
        clock(4),
    );
    assert_eq!(
        events(&report),
        [CREATED_EVENT],
        "it counts as created once it is valid"
    );
}

#[test]
fn a_running_job_that_was_edited_into_an_invalid_one_still_runs() {
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    let conditions = job.status()["conditions"].clone();
    let error = FieldError {
        path: "spec.a".to_owned(),
        problem: "is wrong".to_owned(),
    };
    job.find(&Finding::Invalid(&[error]), clock(5));
    assert_eq!(job.status()["conditions"], conditions);
    let muster = job.muster();
    assert_eq!(
        (&muster["phase"], &muster["reason"]),
        (&json!("Running"), &json!("Invalid"))
    );
    assert_eq!(muster["ready"], "2/2");
}

#[test]
fn messages_fit_their_places() {
    let problem = "ü".repeat(20_000);
    let error = FieldError {
        path: "spec.a".to_owned(),
        problem,
    };
    let report = Stored::new().find(&Finding::Invalid(&[error]), clock(0));
    let said = &report.events[0].message;
    assert!(
        said.len() <= 1024 && said.ends_with("..."),
        "{} bytes",
        said.len()
    );
    let muster = &report.status["muster"];
    let length = |text: &Value| text.as_str().expect("a text").len();
    assert!(length(&muster["message"]) <= 1024);
    assert!(length(&muster["conditions"][0]["message"]) <= 32_768);
}
