//! A report in the making: what every dialect does in the same way. The frame decides when a status is
//! final, adds `status.muster` and measures how urgent the change is; a dialect only projects the
//! planner's status into its own fields. Knows no dialect.

use std::collections::BTreeMap;

use jiff::Timestamp;
use planner::text::truncated;
use planner::{Count, Recorded, Status};
use serde_json::{Map, Value, json};

use crate::Urgency;
use crate::conditions::{Condition, Conditions};
use crate::field_error::aggregate;
use crate::muster_history;
use crate::muster_status::{self, StatusContext};
use crate::report_urgency::urgency;
use crate::{Event, FieldError, Finding, Report, time};

/// The API server refuses events with longer messages.
const EVENT_MESSAGE_BYTES_MAX: usize = 1024;

/// The reason of the event for a worker that was lost and is replaced.
const WORKER_REPLACED: &str = "WorkerReplaced";

/// How one dialect reports.
pub(crate) struct Reporter {
    /// Name of the dialect.
    pub(crate) dialect: &'static str,
    /// What the stored status records of the job.
    pub(crate) recorded: fn(&Value) -> Recorded,
    /// The status has `observedGeneration`.
    pub(crate) has_generation: bool,
    /// Fields of the status that may be written late, as they only count.
    pub(crate) counters: &'static [&'static str],
    /// Writes the dialect's own fields for a job that was planned. If `is_over`, they are final already.
    pub(crate) project: fn(&mut StatusDraft<'_>, &Status),
    /// Writes the dialect's own fields for a job that is invalid.
    pub(crate) refuse: fn(&mut StatusDraft<'_>, &[FieldError]),
    /// The reason of the event for something that blocks a job, from the reason in `status.muster`.
    pub(crate) obstacle_reason: fn(&str) -> &str,
}

/// A status and the events that go with it.
pub(crate) struct StatusDraft<'a> {
    /// The job as stored.
    pub(crate) job: &'a Value,
    /// The time.
    pub(crate) now: Timestamp,
    /// The status to write, without conditions and `muster`; first the stored one.
    pub(crate) status: Map<String, Value>,
    pub(crate) conditions: Conditions,
    pub(crate) muster: Value,
    /// `muster` as stored, or null.
    pub(crate) stored_muster: &'a Value,
    /// The stored status has an outcome, which never changes.
    pub(crate) is_over: bool,
    events: Vec<Event>,
}

impl Reporter {
    /// The status to write, and the events to announce.
    pub(crate) fn report(&self, job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
        let (empty, nothing) = (Map::new(), Value::Null);
        let status = job.get("status").unwrap_or(&nothing);
        let stored = status.as_object().unwrap_or(&empty);
        let stored_muster = stored.get("muster").unwrap_or(&nothing);
        let generation = job.pointer("/metadata/generation").and_then(Value::as_i64);
        let created = job.pointer("/metadata/creationTimestamp");
        let written_now = time::written(now);
        let context = StatusContext {
            stored: stored_muster,
            dialect: self.dialect,
            created: created.and_then(Value::as_str).unwrap_or_default(),
            generation: generation.unwrap_or_default(),
            now: &written_now,
        };
        let mut draft = StatusDraft {
            job,
            now,
            status: stored.clone(),
            conditions: Conditions::of(status),
            muster: Value::Null,
            stored_muster,
            is_over: (self.recorded)(job).outcome.is_some(),
            events: Vec::new(),
        };
        // Another operator saw it end. An operator that takes over would write once for each job that ever ran.
        if draft.is_over && stored_muster.is_null() {
            return Report {
                urgency: Urgency::Unchanged,
                status: draft.status.into(),
                events: Vec::new(),
            };
        }
        if self.has_generation {
            draft.insert("observedGeneration", context.generation);
        }
        let is_final = draft.is_over && muster_status::is_final(stored_muster);
        match finding {
            Finding::Invalid(_) if draft.is_over => {}
            Finding::Invalid(errors) => {
                draft.muster = context.invalid(&aggregate(errors));
                (self.refuse)(&mut draft, errors);
            }
            Finding::Unseen(_) if draft.is_over => {}
            Finding::Unseen(known) => {
                draft.muster = context.unseen(known);
                draft.announce_obstacle(self.obstacle_reason);
            }
            Finding::Planned(planned) => {
                draft.muster = match is_final {
                    false => context.planned(planned),
                    true => muster_history::concluded(stored_muster, &planned.history),
                };
                (self.project)(&mut draft, planned);
                draft.announce_lost_worker(planned);
                draft.announce_obstacle(self.obstacle_reason);
            }
        }
        if !draft.muster.is_null() {
            let muster = draft.muster.take();
            draft.insert("muster", muster);
        }
        Report {
            urgency: urgency(stored, &draft.status, self.counters),
            status: draft.status.into(),
            events: draft.events,
        }
    }
}

impl StatusDraft<'_> {
    /// Sets a field of the status.
    pub(crate) fn insert(&mut self, name: &str, value: impl Into<Value>) {
        self.status.insert(name.to_owned(), value.into());
    }

    /// Sets a condition. True if that changed anything.
    pub(crate) fn set(&mut self, name: &str, holds: bool, reason: &str, message: &str) -> bool {
        self.set_since(name, holds, reason, message, self.now)
    }

    /// The same, with another transition time for a status that is new.
    pub(crate) fn set_since(
        &mut self,
        name: &str,
        holds: bool,
        reason: &str,
        message: &str,
        since: Timestamp,
    ) -> bool {
        let condition = Condition {
            name,
            holds,
            reason,
            message,
        };
        let (now, since) = (time::written(self.now), time::written(since));
        self.conditions.set_since(condition, &now, &since)
    }

    /// Sets a condition, and announces it if that changed anything.
    pub(crate) fn set_and_announce(
        &mut self,
        name: &str,
        holds: bool,
        reason: &str,
        message: &str,
    ) -> bool {
        let is_new = self.set(name, holds, reason, message);
        if is_new {
            self.announce(reason, message);
        }
        is_new
    }

    /// Writes the conditions into the status.
    pub(crate) fn write_conditions(&mut self) {
        let conditions = self.conditions.clone().into_value();
        self.insert("conditions", conditions);
    }

    /// Writes `startTime`; another writer's spelling of the same second stays.
    pub(crate) fn write_start_time(&mut self, started_at: Option<Timestamp>) {
        if let Some(at) = started_at {
            let stored = self.status.get("startTime").and_then(Value::as_str);
            let written = time::kept_or_written(stored, at);
            self.insert("startTime", written);
        }
    }

    /// Announces something.
    pub(crate) fn announce(&mut self, reason: &str, message: &str) {
        self.push(false, reason, message);
    }

    /// Announces something that a person should look at.
    pub(crate) fn warn(&mut self, reason: &str, message: &str) {
        self.push(true, reason, message);
    }

    fn push(&mut self, warning: bool, reason: &str, message: &str) {
        self.events.push(Event {
            warning,
            reason: reason.to_owned(),
            message: truncated(message, EVENT_MESSAGE_BYTES_MAX),
        });
    }

    /// Something blocks the job that did not when the stored status was written.
    pub(crate) fn has_new_obstacle(&self) -> bool {
        muster_status::new_obstacle(self.stored_muster, &self.muster).is_some()
    }

    /// Announces that a worker is replaced, when it is counted.
    fn announce_lost_worker(&mut self, planned: &Status) {
        let before = muster_status::replacements(self.stored_muster).lost_workers;
        if planned.replacements.lost_workers > before {
            self.warn(WORKER_REPLACED, &planned.message);
        }
    }

    /// Announces what blocks the job, if it is new.
    pub(crate) fn announce_obstacle(&mut self, reason: fn(&str) -> &str) {
        let obstacle = muster_status::new_obstacle(self.stored_muster, &self.muster);
        let obstacle =
            obstacle.map(|(word, message)| (reason(word).to_owned(), message.to_owned()));
        if let Some((reason, message)) = obstacle {
            self.warn(&reason, &message);
        }
    }

    /// `metadata.name`.
    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `<kind> <namespace>/<name> <end>`
    pub(crate) fn sentence(&self, kind: &str, end: &str) -> String {
        let (namespace, name) = (self.text("/metadata/namespace"), self.name());
        format!("{kind} {namespace}/{name} {end}")
    }

    /// A text of the job, empty if it has none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let text = self.job.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    }
}

/// `replicaStatuses`: the launcher has no entry before it exists. Zeros are left out, because clients
/// compare for equality.
pub(crate) fn replica_statuses(planned: &Status) -> Value {
    let counters = |count: Count| -> BTreeMap<&str, u32> {
        let counters = [
            ("active", count.active),
            ("succeeded", count.succeeded),
            ("failed", count.failed),
        ];
        counters
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .collect()
    };
    let mut statuses = json!({"Worker": counters(planned.workers)});
    if let Some(launcher) = planned.launcher {
        statuses["Launcher"] = json!(counters(launcher));
    }
    statuses
}
