//! Hub to wire for the openmpi component, which had no status: conditions, times and counts as other
//! jobs here have them. Decides nothing about the job: a recorded end stands, and everything else is a
//! projection of the planner's status.

use jiff::Timestamp;
use planner::{Count, Outcome, Recorded, Status, Verdict};
use serde_json::{Map, Value, json};

use super::{DIALECT, KIND};
use crate::conditions::{Condition, Conditions, text};
use crate::field_error::aggregate;
use crate::muster_status::{self, StatusContext};
use crate::{Event, Finding, Report, report_urgency, time};

/// They may wait.
const COUNTERS: [&str; 2] = ["master", "workers"];
const CREATED: &str = "Created";
const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// What the job's status says already.
pub fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    let conditions = Conditions::of(status);
    let verdict = match conditions.get(FAILED) {
        Some(failed) if conditions.holds(FAILED) => Some(Verdict::Failed {
            reason: text(failed, "reason").to_owned(),
            message: text(failed, "message").to_owned(),
        }),
        _ if conditions.holds(SUCCEEDED) => Some(Verdict::Succeeded),
        _ => None,
    };
    // Unreadable or not, it is over, and a job that ended must not run again.
    let at = time::read(text(status, "completionTime")).unwrap_or(Timestamp::UNIX_EPOCH);
    Recorded {
        seen: !conditions.is_empty(),
        started_at: time::read(text(status, "startTime")),
        ran: conditions.get(RUNNING).is_some(),
        suspended: false,
        outcome: verdict.map(|verdict| Outcome { verdict, at }),
        restarts: 0,
        replaced: None,
    }
}

/// What the job's status should say, and what to announce.
pub fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let stored = match job.get("status") {
        Some(Value::Object(status)) => status.clone(),
        _ => Map::new(),
    };
    let generation = job.pointer("/metadata/generation").and_then(Value::as_i64);
    let generation = generation.unwrap_or_default();
    let muster = stored.get("muster").cloned().unwrap_or_default();
    let now = time::written(now);
    let context = StatusContext {
        stored: &muster,
        dialect: DIALECT.name,
        generation,
        now: &now,
    };
    let over = recorded(job).outcome.is_some();
    let mut status = stored.clone();
    status.insert("observedGeneration".to_owned(), generation.into());
    let mut draft = Draft {
        job,
        now: &now,
        conditions: Conditions::of(&Value::Object(stored.clone())),
        status: &mut status,
        events: Vec::new(),
    };
    match finding {
        Finding::Invalid(_) if over => {}
        Finding::Planned(_) if over && muster_status::is_final(&muster) => {}
        Finding::Invalid(errors) => {
            let said = context.invalid(&aggregate(errors));
            draft.announce_obstacle(&muster, &said);
            draft.status.insert("muster".to_owned(), said);
        }
        Finding::Planned(planned) => {
            if !over {
                draft.project(planned);
            }
            let said = context.planned(planned);
            draft.announce_obstacle(&muster, &said);
            draft.status.insert("muster".to_owned(), said);
        }
    }
    let events = draft.events;
    report_urgency::report(&stored, status, events, &COUNTERS)
}

/// The dialect's own part of a status in the making.
struct Draft<'a> {
    job: &'a Value,
    now: &'a str,
    conditions: Conditions,
    status: &'a mut Map<String, Value>,
    events: Vec<Event>,
}

impl Draft<'_> {
    fn project(&mut self, planned: &Status) {
        if self.conditions.is_empty() {
            let said = self.sentence("is created.");
            self.set(CREATED, true, "OpenMPICreated", &said, self.now);
            self.tell(false, "OpenMPICreated", &said);
        }
        if let Some(at) = planned.started_at {
            let stored = self.status.get("startTime").and_then(Value::as_str);
            let written = time::kept_or_written(stored, at);
            self.status.insert("startTime".to_owned(), written.into());
        }
        if planned.running {
            let said = self.sentence("is running.");
            if self.set(RUNNING, true, "OpenMPIRunning", &said, self.now) {
                self.tell(false, "OpenMPIRunning", &said);
            }
        }
        if let Some(outcome) = &planned.outcome {
            self.conclude(outcome);
        }
        if let Some(master) = planned.launcher {
            self.status.insert("master".to_owned(), counters(master));
        }
        let workers = counters(planned.workers);
        self.status.insert("workers".to_owned(), workers);
        let conditions = self.conditions.clone().into_value();
        self.status.insert("conditions".to_owned(), conditions);
    }

    fn conclude(&mut self, outcome: &Outcome) {
        let at = time::written(outcome.at);
        let (name, reason, said) = match &outcome.verdict {
            Verdict::Succeeded => {
                let said = self.sentence("ended: its master exited with 0.");
                (SUCCEEDED, "OpenMPISucceeded", said)
            }
            Verdict::Failed { reason, message } => (FAILED, reason.as_str(), message.clone()),
        };
        if self.conditions.holds(RUNNING) {
            self.set(RUNNING, false, reason, &said, &at);
        }
        self.set(name, true, reason, &said, &at);
        self.tell(name == FAILED, reason, &said);
        self.status.insert("completionTime".to_owned(), at.into());
    }

    fn set(&mut self, name: &str, holds: bool, reason: &str, message: &str, at: &str) -> bool {
        let condition = Condition {
            name,
            holds,
            reason,
            message,
        };
        self.conditions.set_since(condition, self.now, at)
    }

    /// `OpenMPI <namespace>/<name> …`
    fn sentence(&self, end: &str) -> String {
        let metadata = self.job.get("metadata").unwrap_or(&Value::Null);
        let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
        format!("{KIND} {namespace}/{name} {end}")
    }

    fn announce_obstacle(&mut self, stored: &Value, said: &Value) {
        if let Some((reason, message)) = muster_status::new_obstacle(stored, said) {
            self.tell(true, reason, message);
        }
    }

    fn tell(&mut self, warning: bool, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.events.push(Event {
            warning,
            reason,
            message,
        });
    }
}

fn counters(count: Count) -> Value {
    json!({"active": count.active, "succeeded": count.succeeded, "failed": count.failed})
}
