//! Hub to wire for v1: the status that Flyte and the training SDK read. Flyte takes the true
//! condition with the newest transition time for the truth, in whole seconds, so each new one is
//! later than all others. Decides nothing about the job: everything is a projection of the planner's
//! status.

use jiff::{SignedDuration, Timestamp};
use planner::{Status, Verdict};
use serde_json::{Map, Value};

use super::defaults::DIALECT_NAME;
use crate::conditions::{Condition, Conditions, text};
use crate::field_error::aggregate;
pub(super) use crate::kubeflow::status::recorded;
use crate::kubeflow::status::{
    self, CREATED, FAILED, REASON_CREATED, REASON_RESUMED, REASON_RUNNING, REASON_SUCCEEDED,
    REASON_SUSPENDED, RUNNING, SUCCEEDED, SUSPENDED, obstacle,
};
use crate::muster_status::{self, StatusContext};
use crate::{Event, FieldError, Finding, Report, time};

const RESTARTING: &str = "Restarting";
const REASON_RESTARTING: &str = "MPIJobRestarting";
const REASON_INVALID: &str = "MPIJobFailedValidation";

/// What the job's status should say, and what to announce.
pub fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let stored = match job.get("status") {
        Some(Value::Object(status)) => status.clone(),
        _ => Map::new(),
    };
    let generation = job.pointer("/metadata/generation").and_then(Value::as_i64);
    let generation = generation.unwrap_or_default();
    let muster = stored.get("muster").cloned().unwrap_or_default();
    let written = time::written(now);
    let context = StatusContext {
        stored: &muster,
        dialect: DIALECT_NAME,
        generation,
        now: &written,
    };
    let over = recorded(job).outcome.is_some();

    let mut status = stored.clone();
    status.insert("observedGeneration".to_owned(), generation.into());
    let mut draft = Draft {
        name: job.pointer("/metadata/name").and_then(Value::as_str),
        now,
        conditions: Conditions::of(&Value::Object(stored.clone())),
        status: &mut status,
        events: Vec::new(),
    };
    match finding {
        Finding::Invalid(_) if over => {}
        Finding::Planned(_) if over && muster_status::is_final(&muster) => {}
        Finding::Planned(planned) if over => {
            draft.say_muster(context.planned(planned));
        }
        Finding::Invalid(errors) => {
            let said = context.invalid(&aggregate(errors));
            draft.refuse(errors, &muster, said);
        }
        Finding::Planned(planned) => {
            let (restarts, _) = muster_status::replacements(&muster);
            draft.project(planned, planned.restarts > restarts);
            let said = context.planned(planned);
            draft.events.extend(obstacle(&muster, &said));
            draft.say_muster(said);
        }
    }
    let events = draft.events;
    status::report(&stored, status, events)
}

/// The dialect's own part of a status in the making.
struct Draft<'a> {
    name: Option<&'a str>,
    now: Timestamp,
    conditions: Conditions,
    status: &'a mut Map<String, Value>,
    events: Vec<Event>,
}

impl Draft<'_> {
    fn project(&mut self, planned: &Status, restarts: bool) {
        self.create();
        self.start(planned.started_at);
        self.suspend_or_resume(planned.suspended);
        if restarts {
            self.restart();
        }
        match planned.outcome.as_ref() {
            Some(outcome) => self.conclude(&outcome.verdict, outcome.at),
            None if planned.running => self.run(),
            None => {}
        }
        let replicas = status::replica_statuses(planned);
        self.status.insert("replicaStatuses".to_owned(), replicas);
        self.write_conditions();
    }

    /// A job that cannot be understood has failed, unless its pods run already: its clients look at
    /// conditions and times only, and would wait for ever.
    fn refuse(&mut self, errors: &[FieldError], stored: &Value, said: Value) {
        let message = format!("MPIJob failed validation because {}", aggregate(errors));
        if muster_status::new_obstacle(stored, &said).is_some() {
            self.tell(true, REASON_INVALID, &message);
        }
        if self.conditions.holds(RUNNING) || self.conditions.holds(SUSPENDED) {
            return self.say_muster(said);
        }
        self.create();
        self.start(None);
        let (reason, message) = (REASON_INVALID.to_owned(), message);
        self.end(&Verdict::Failed { reason, message }, self.now);
        self.write_conditions();
        let mut said = said;
        said["phase"] = FAILED.into();
        said["finished"] = true.into();
        self.say_muster(said);
    }

    fn create(&mut self) {
        if self.conditions.holds(CREATED) {
            return;
        }
        let message = self.sentence("is created.");
        self.conditions.remove(CREATED);
        let now = time::written(self.now);
        let created = condition(CREATED, true, REASON_CREATED, &message);
        self.conditions.put_first(created, &now);
        self.tell(false, REASON_CREATED, &message);
    }

    /// Also for a job that is suspended: some clients give up on one that never started.
    fn start(&mut self, started_at: Option<Timestamp>) {
        let stored = self.status.get("startTime").and_then(Value::as_str);
        let written = match (started_at, stored) {
            (Some(at), stored) => time::kept_or_written(stored, at),
            (None, Some(stored)) => stored.to_owned(),
            (None, None) => time::written(self.now),
        };
        self.status.insert("startTime".to_owned(), written.into());
    }

    /// A suspension is no newer than the creation: some clients know no such condition, and then
    /// still see a job that is queued.
    fn suspend_or_resume(&mut self, suspended: bool) {
        let now = time::written(self.now);
        if suspended {
            let message = self.sentence("is suspended.");
            let created = self.conditions.get(CREATED);
            let since = created.map(|created| text(created, "lastTransitionTime").to_owned());
            let held = condition(SUSPENDED, true, REASON_SUSPENDED, &message);
            if self
                .conditions
                .set_since(held, &now, since.as_deref().unwrap_or(&now))
            {
                self.tell(false, REASON_SUSPENDED, &message);
            }
            if self.conditions.get(RUNNING).is_some() {
                let stopped = condition(RUNNING, false, REASON_SUSPENDED, &message);
                self.conditions.set(stopped, &now);
            }
        } else if self.conditions.get(SUSPENDED).is_some() {
            let message = self.sentence("is resumed.");
            let resumed = condition(SUSPENDED, false, REASON_RESUMED, &message);
            if self.conditions.set(resumed, &now) {
                self.tell(false, REASON_RESUMED, &message);
            }
        }
    }

    fn run(&mut self) {
        let message = self.sentence("is running.");
        self.conditions.remove(RESTARTING);
        if self.set_true(condition(RUNNING, true, REASON_RUNNING, &message)) {
            self.tell(false, REASON_RUNNING, &message);
        }
    }

    fn restart(&mut self) {
        let message = self.sentence("is restarting because a replica was ended from outside.");
        self.conditions.remove(RUNNING);
        self.conditions.remove(RESTARTING);
        self.set_true(condition(RESTARTING, true, REASON_RESTARTING, &message));
        self.tell(true, REASON_RESTARTING, &message);
    }

    fn conclude(&mut self, verdict: &Verdict, at: Timestamp) {
        self.end(verdict, at);
        match verdict {
            Verdict::Succeeded => {
                let message = self.sentence("is successfully completed.");
                self.tell(false, REASON_SUCCEEDED, &message);
            }
            Verdict::Failed { reason, message } => self.tell(true, reason, message),
        }
    }

    /// Exactly one terminal condition, and nothing beside it that looks like one.
    fn end(&mut self, verdict: &Verdict, at: Timestamp) {
        self.conditions.withdraw(RUNNING);
        for name in [RESTARTING, SUCCEEDED, FAILED] {
            self.conditions.remove(name);
        }
        match verdict {
            Verdict::Succeeded => {
                let message = self.sentence("is successfully completed.");
                self.set_true(condition(SUCCEEDED, true, REASON_SUCCEEDED, &message));
            }
            Verdict::Failed { reason, message } => {
                self.set_true(condition(FAILED, true, reason, message));
            }
        }
        let written = time::written(at);
        self.status
            .entry("completionTime")
            .or_insert_with(|| written.into());
    }

    /// Sets a condition that holds from now on, later than every other that does.
    fn set_true(&mut self, new: Condition<'_>) -> bool {
        let newest = self.conditions.newest_true(new.name);
        let after = newest.map(|newest| newest + SignedDuration::from_secs(1));
        let since = after.map_or(self.now, |after| after.max(self.now));
        let (now, since) = (time::written(self.now), time::written(since));
        self.conditions.set_since(new, &now, &since)
    }

    fn write_conditions(&mut self) {
        let conditions = self.conditions.clone().into_value();
        self.status.insert("conditions".to_owned(), conditions);
    }

    fn say_muster(&mut self, said: Value) {
        self.status.insert("muster".to_owned(), said);
    }

    /// `MPIJob <name> …`
    fn sentence(&self, end: &str) -> String {
        format!("MPIJob {} {end}", self.name.unwrap_or_default())
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

fn condition<'a>(name: &'a str, holds: bool, reason: &'a str, message: &'a str) -> Condition<'a> {
    Condition {
        name,
        holds,
        reason,
        message,
    }
}
