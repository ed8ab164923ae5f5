//! What is worth a write or an event, and what is said of jobs that cannot go on.

use dialects::kubeflow_v2beta1::DIALECT;
use dialects::{FieldError, Finding, Urgency};
use planner::{Reason, Status};
use serde_json::{Value, json};

use crate::found::{
    CREATED_EVENT, Stored, blocked, clock, count, ended, events, running, suspended, waiting,
};

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
        ..waiting()
    };
    let report = job.step(&progress, clock(1));
    assert_eq!(
        (report.urgency, report.events.len()),
        (Urgency::Progress, 0)
    );
    assert_eq!(job.muster()["ready"], "1/2");
    assert_eq!(job.step(&running(), clock(2)).urgency, Urgency::Now);
}

#[test]
fn v03_trouble_that_begins_or_ends_is_more_than_progress() {
    let mut job = Stored::new();
    let because = |reason| Status {
        reason: Some(reason),
        ..waiting()
    };
    job.step(&because(Reason::WaitingForWorkers), clock(0));
    for (reason, urgency) in [
        (Reason::Starting, Urgency::Progress),
        (Reason::Unschedulable, Urgency::Trouble),
        (Reason::PullingImage, Urgency::Trouble),
        (Reason::WaitingForWorkers, Urgency::Trouble),
    ] {
        let report = job.step(&because(reason), clock(1));
        assert_eq!((report.urgency, report.events.len()), (urgency, 0));
    }
}

#[test]
fn v01_an_edit_is_no_news_of_its_own() {
    let mut job = Stored::new();
    job.step(&waiting(), clock(0));
    job.0["metadata"]["generation"] = 2.into();
    assert_eq!(job.step(&waiting(), clock(1)).urgency, Urgency::Edit);
    assert_eq!(job.status()["observedGeneration"], 2);
    let wider = Status {
        wanted: 4,
        ..waiting()
    };
    job.0["metadata"]["generation"] = 3.into();
    assert_eq!(job.step(&wider, clock(2)).urgency, Urgency::Progress);

    job.step(&suspended(), clock(3));
    let wider = Status {
        wanted: 4,
        ..suspended()
    };
    job.0["metadata"]["generation"] = 4.into();
    let report = job.step(&wider, clock(4));
    assert_eq!(
        report.urgency,
        Urgency::Edit,
        "no pod of a suspended job moves"
    );
    assert_eq!(job.muster()["ready"], "0/4");
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
fn a_number_of_slots_that_does_not_count_is_announced_with_the_job() {
    let limits = json!({"limits": {"nvidia.com/gpu": 8}});
    let container = json!({"name": "main", "image": "a", "resources": limits});
    for (said, warns) in [(4, true), (8, false), (1, false)] {
        let mut job = Stored::new();
        job.0["spec"] = json!({
            "slotsPerWorker": said, "muster": {"slotsPerWorker": "Auto"},
            "mpiReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}},
        });
        let mut said = vec![CREATED_EVENT.to_owned()];
        said.extend(warns.then(|| {
            "Warning SlotsPerWorkerUnused slotsPerWorker is 4, but spec.muster.slotsPerWorker: Auto makes it 8: a worker has 8 accelerators".to_owned()
        }));
        assert_eq!(events(&job.step(&waiting(), clock(0))), said);
        assert!(
            events(&job.step(&running(), clock(1)))
                .iter()
                .all(|event| !event.contains("Slots"))
        );
    }
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
fn c15_a_job_that_cannot_be_seen_says_so_and_keeps_what_is_known() {
    let mut job = Stored::new();
    job.step(&running(), clock(0));
    let before = job.status().clone();
    let blind = Status {
        reason: Some(Reason::Refused),
        message: "pods is forbidden".to_owned(),
        ..waiting()
    };
    let report = job.find(&Finding::Unseen(&blind), clock(5));
    assert_eq!(
        events(&report),
        ["Warning MPIJobFailed pods is forbidden"],
        "it is said once"
    );
    let mut status = job.status().clone();
    let muster = status["muster"].take();
    assert_eq!(
        (&muster["phase"], &muster["reason"]),
        (&json!("Running"), &json!("Refused"))
    );
    assert_eq!(muster["conditions"][0]["status"], "False");
    let mut known = before.clone();
    known["muster"] = Value::Null;
    assert_eq!(status, known, "all else stands");
    let again = job.find(&Finding::Unseen(&blind), clock(50));
    assert_eq!(
        (again.urgency, events(&again).len()),
        (Urgency::Unchanged, 0)
    );

    job.step(&running(), clock(60));
    assert_eq!(job.status()["muster"]["phase"], "Running");
    assert_eq!(job.status()["muster"]["conditions"][0]["status"], "True");

    job.step(&ended(planner::Verdict::Succeeded, clock(70)), clock(70));
    let over = job.status().clone();
    job.find(&Finding::Unseen(&blind), clock(80));
    assert_eq!(*job.status(), over, "an end is final");
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
