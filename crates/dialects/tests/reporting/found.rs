//! What a planner finds of a job, and a stored job that is told of it. Must not know what is expected.

use dialects::kubeflow_v2beta1::DIALECT;
use dialects::{Finding, Report, Urgency};
use jiff::Timestamp;
use planner::{Count, History, Outcome, Phase, Reason, Replacements, Status, Verdict};
use serde_json::{Value, json};

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("this is a timestamp")
}

/// 22:15:51 and so many seconds, on the day of the documentation's example.
pub(crate) fn clock(secs: i64) -> Timestamp {
    at("2019-07-09T22:15:51.9Z") + jiff::SignedDuration::from_secs(secs)
}

pub(crate) fn count(active: u32, succeeded: u32, failed: u32) -> Count {
    Count {
        active,
        succeeded,
        failed,
    }
}

pub(crate) fn waiting() -> Status {
    Status {
        phase: Phase::Gathering,
        reason: Some(Reason::WaitingForWorkers),
        message: "0 of 2 workers run".to_owned(),
        transport: "SSH",
        suspended: false,
        running: false,
        started_at: Some(clock(0)),
        outcome: None,
        launcher: Some(Count::default()),
        workers: Count::default(),
        ready: 0,
        wanted: 2,
        replacements: Replacements::default(),
        keys: None,
        gang: None,
        history: History::default(),
        pods: Vec::new(),
    }
}

pub(crate) fn running() -> Status {
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

pub(crate) fn suspended() -> Status {
    Status {
        phase: Phase::Suspended,
        reason: Some(Reason::Suspended),
        message: "MPIJob suspended".to_owned(),
        suspended: true,
        started_at: None,
        ..waiting()
    }
}

pub(crate) fn ended(verdict: Verdict, when: Timestamp) -> Status {
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

pub(crate) fn blocked(reason: Reason, message: &str) -> Status {
    Status {
        phase: Phase::Blocked,
        reason: Some(reason),
        message: message.to_owned(),
        ..waiting()
    }
}

pub(crate) fn failed(reason: &str, message: &str) -> Verdict {
    Verdict::Failed {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// A job and its status as stored.
pub(crate) struct Stored(pub(crate) Value);

impl Stored {
    pub(crate) fn new() -> Self {
        Self(json!({
            "metadata": {"name": "tensorflow-benchmarks", "namespace": "default", "generation": 1},
        }))
    }

    pub(crate) fn step(&mut self, status: &Status, now: Timestamp) -> Report {
        self.find(&Finding::Planned(status), now)
    }

    pub(crate) fn find(&mut self, finding: &Finding<'_>, now: Timestamp) -> Report {
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

    pub(crate) fn status(&self) -> &Value {
        &self.0["status"]
    }

    pub(crate) fn muster(&self) -> &Value {
        &self.status()["muster"]
    }

    /// `Type Status Reason Message update transition`, a line each, times as seconds of the clock.
    pub(crate) fn conditions(&self) -> Vec<String> {
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
pub(crate) fn events(report: &Report) -> Vec<String> {
    let kind = |warning| if warning { "Warning" } else { "Normal" };
    let line = |event: &dialects::Event| {
        format!("{} {} {}", kind(event.warning), event.reason, event.message)
    };
    report.events.iter().map(line).collect()
}

pub(crate) const CREATED: &str =
    "Created True MPIJobCreated | MPIJob default/tensorflow-benchmarks is created. | 0 0";
pub(crate) const CREATED_EVENT: &str =
    "Normal MPIJobCreated MPIJob default/tensorflow-benchmarks is created.";
