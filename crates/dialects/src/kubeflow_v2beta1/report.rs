//! Hub to wire: the status and the events that clients of Kubeflow's controller know, byte for
//! byte, and beside them what muster itself says. Decides nothing about the job: a recorded
//! outcome stands, and everything else is a projection of the planner's status.

use jiff::Timestamp;
use planner::{Status, Verdict};
use serde_json::{Map, Value};

use super::defaults::DIALECT_NAME;
use crate::conditions::{Condition, Conditions};
use crate::field_error::aggregate;
pub(super) use crate::kubeflow::status::recorded;
use crate::kubeflow::status::{
    self, CREATED, FAILED, REASON_CREATED, REASON_RESUMED, REASON_RUNNING, REASON_SUCCEEDED,
    REASON_SUSPENDED, RUNNING, SUCCEEDED, SUSPENDED, obstacle,
};
use crate::muster_status::{self, StatusContext};
use crate::{Event, FieldError, Finding, Report, time};

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
        dialect: DIALECT_NAME,
        generation,
        now: &now,
    };
    let over = recorded(job).outcome.is_some();

    let mut status = stored.clone();
    status.insert("observedGeneration".to_owned(), generation.into());
    let mut events = Vec::new();
    match finding {
        Finding::Invalid(_) if over => {}
        Finding::Planned(_) if over && muster_status::is_final(&muster) => {}
        Finding::Planned(planned) if over => {
            status.insert("muster".to_owned(), context.planned(planned));
        }
        Finding::Invalid(errors) => {
            let said = context.invalid(&aggregate(errors));
            events.extend(validation_error(errors, &muster, &said));
            status.insert("muster".to_owned(), said);
        }
        Finding::Planned(planned) => {
            let mut draft = Draft {
                job,
                planned,
                now: &now,
                status: &mut status,
                events,
            };
            draft.project();
            events = draft.events;
            let said = context.planned(planned);
            events.extend(obstacle(&muster, &said));
            status.insert("muster".to_owned(), said);
        }
    }
    status::report(&stored, status, events)
}

fn validation_error(errors: &[FieldError], stored: &Value, said: &Value) -> Option<Event> {
    muster_status::new_obstacle(stored, said)?;
    let message = format!("Found validation errors: {}", aggregate(errors));
    Some(Event {
        warning: true,
        reason: "ValidationError".to_owned(),
        message,
    })
}

/// The dialect's own part of a status in the making.
struct Draft<'a> {
    job: &'a Value,
    planned: &'a Status,
    now: &'a str,
    status: &'a mut Map<String, Value>,
    events: Vec<Event>,
}

impl Draft<'_> {
    /// In the order in which Kubeflow's controller evaluates, because the order of the
    /// condition list follows from it.
    fn project(&mut self) {
        let mut conditions = Conditions::of(&Value::Object(self.status.clone()));
        if conditions.is_empty() {
            self.create(&mut conditions);
        }
        self.suspend_or_resume(&mut conditions);
        self.times();
        self.conclude(&mut conditions);
        self.count();
        self.run(&mut conditions);
        self.status
            .insert("conditions".to_owned(), conditions.into_value());
    }

    fn create(&mut self, conditions: &mut Conditions) {
        let message = self.sentence("is created.");
        self.set(conditions, CREATED, true, REASON_CREATED, &message);
        self.say(REASON_CREATED, &message);
        let restart = "/spec/mpiReplicaSpecs/Launcher/template/spec/restartPolicy";
        let overridden = self
            .job
            .pointer(restart)
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !overridden.is_empty() {
            self.warn(
                "SetPodTemplateRestartPolicy",
                "Restart policy in pod template overridden by restart policy in replica spec",
            );
        }
    }

    fn suspend_or_resume(&mut self, conditions: &mut Conditions) {
        if self.planned.suspended {
            if self.set(
                conditions,
                SUSPENDED,
                true,
                REASON_SUSPENDED,
                "MPIJob suspended",
            ) {
                self.say(REASON_SUSPENDED, "MPIJob suspended");
            }
        } else if conditions.get(SUSPENDED).is_some()
            && self.set(
                conditions,
                SUSPENDED,
                false,
                REASON_RESUMED,
                "MPIJob resumed",
            )
        {
            self.say(REASON_RESUMED, "MPIJob resumed");
        }
    }

    fn times(&mut self) {
        if let Some(started_at) = self.planned.started_at {
            let stored = self.status.get("startTime").and_then(Value::as_str);
            let written = time::kept_or_written(stored, started_at);
            self.status.insert("startTime".to_owned(), written.into());
        }
        let known = self
            .status
            .get("completionTime")
            .is_some_and(Value::is_string);
        if let Some(outcome) = self.planned.outcome.as_ref().filter(|_| !known) {
            let written = time::written(outcome.at);
            self.status
                .insert("completionTime".to_owned(), written.into());
        }
    }

    fn conclude(&mut self, conditions: &mut Conditions) {
        match self
            .planned
            .outcome
            .as_ref()
            .map(|outcome| &outcome.verdict)
        {
            Some(Verdict::Succeeded) => {
                let message = self.sentence("successfully completed.");
                conditions.withdraw(RUNNING);
                conditions.withdraw(FAILED);
                self.set(conditions, SUCCEEDED, true, REASON_SUCCEEDED, &message);
                self.say(REASON_SUCCEEDED, &message);
            }
            Some(Verdict::Failed { reason, message }) => {
                conditions.withdraw(RUNNING);
                self.set(conditions, FAILED, true, reason, message);
                self.warn(reason, message);
            }
            None => {}
        }
    }

    fn count(&mut self) {
        let replicas = status::replica_statuses(self.planned);
        self.status.insert("replicaStatuses".to_owned(), replicas);
    }

    fn run(&mut self, conditions: &mut Conditions) {
        if self.planned.suspended {
            let message = self.sentence("is suspended.");
            self.set(conditions, RUNNING, false, REASON_SUSPENDED, &message);
        } else if self.planned.outcome.is_some() {
            if conditions.get(RUNNING).is_none() {
                let message = self.sentence("is finished but Running condition was never set.");
                let completion = self.status.get("completionTime").and_then(Value::as_str);
                let condition = Condition {
                    name: RUNNING,
                    holds: false,
                    reason: REASON_RUNNING,
                    message: &message,
                };
                conditions.set(condition, completion.unwrap_or(self.now));
            }
        } else if self.planned.running {
            let message = self.sentence("is running.");
            if self.set(conditions, RUNNING, true, REASON_RUNNING, &message) {
                // The event has always lacked the period that the condition has.
                self.say(REASON_RUNNING, message.trim_end_matches('.'));
            }
        }
    }

    fn set(
        &self,
        conditions: &mut Conditions,
        name: &str,
        holds: bool,
        reason: &str,
        message: &str,
    ) -> bool {
        conditions.set(
            Condition {
                name,
                holds,
                reason,
                message,
            },
            self.now,
        )
    }

    /// `MPIJob <namespace>/<name> …`
    fn sentence(&self, end: &str) -> String {
        let text = |path: &str| {
            self.job
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        format!(
            "MPIJob {}/{} {end}",
            text("/metadata/namespace"),
            text("/metadata/name")
        )
    }

    fn say(&mut self, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.events.push(Event {
            warning: false,
            reason,
            message,
        });
    }

    fn warn(&mut self, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.events.push(Event {
            warning: true,
            reason,
            message,
        });
    }
}
