//! Hub to wire for T9k: phase, six conditions, a task for each type of replica, and counts over all
//! pods. `Completed` says that a job has ended, not how. Decides nothing about the job: a recorded
//! end stands, and everything else is a projection of the planner's status.

mod replicas;

use jiff::Timestamp;
use planner::{Outcome, Phase, Recorded, Status, Verdict};
use serde_json::{Map, Value};

use super::DIALECT;
use crate::conditions::{Condition, Conditions, text};
use crate::field_error::aggregate;
use crate::muster_status::{self, StatusContext};
use crate::{Event, Finding, Report, report_urgency, time};

/// They may wait.
const COUNTERS: [&str; 2] = ["tasks", "aggregate"];
const INITIALIZED: &str = "Initialized";
const RUNNING: &str = "Running";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const COMPLETED: &str = "Completed";
const FAILED: &str = "Failed";
const PAUSED: &str = "Paused";

/// The reason of a condition that needs none.
const NONE: &str = "-";
/// In `status.muster`: when the job started, for which the API has no field.
const START_TIME: &str = "startTime";

/// What the job's status says already.
pub fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    let conditions = Conditions::of(status);
    let muster = status.get("muster").unwrap_or(&Value::Null);
    let (restarts, replaced) = muster_status::replacements(muster);
    let verdict = match (conditions.get(FAILED), conditions.holds(COMPLETED)) {
        (Some(failed), _) if conditions.holds(FAILED) => Some(Verdict::Failed {
            reason: text(failed, "reason").to_owned(),
            message: text(failed, "message").to_owned(),
        }),
        (_, true) => Some(Verdict::Succeeded),
        (_, false) => None,
    };
    let ended = [COMPLETED, FAILED].map(|name| conditions.get(name));
    let ended = ended.into_iter().flatten();
    let mut times = ended.filter_map(|condition| time::read(text(condition, "lastTransitionTime")));
    // Unreadable or not, it is over, and a job that ended must not run again.
    let at = times.next().unwrap_or(Timestamp::UNIX_EPOCH);
    Recorded {
        seen: !conditions.is_empty() || !text(status, "phase").is_empty(),
        started_at: time::read(text(muster, START_TIME)),
        ran: conditions.get(RUNNING).is_some(),
        suspended: conditions.holds(PAUSED),
        outcome: verdict.map(|verdict| Outcome { verdict, at }),
        restarts,
        replaced,
    }
}

/// What the job's status should say, and what to announce.
pub fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let stored = match job.get("status") {
        Some(Value::Object(status)) => status.clone(),
        _ => Map::new(),
    };
    let generation = job.pointer("/metadata/generation").and_then(Value::as_i64);
    let muster = stored.get("muster").cloned().unwrap_or_default();
    let written = time::written(now);
    let context = StatusContext {
        stored: &muster,
        dialect: DIALECT.name,
        generation: generation.unwrap_or_default(),
        now: &written,
    };
    let over = recorded(job).outcome.is_some();
    let mut status = stored.clone();
    let mut draft = Draft {
        now: &written,
        conditions: Conditions::of(&Value::Object(stored.clone())),
        status: &mut status,
        events: Vec::new(),
    };
    match finding {
        Finding::Invalid(_) if over => {}
        Finding::Invalid(errors) => {
            let said = context.invalid(&aggregate(errors));
            draft.announce_obstacle(&muster, &said);
            draft
                .status
                .entry("phase")
                .or_insert_with(|| "Pending".into());
            draft.status.insert("muster".to_owned(), said);
        }
        Finding::Planned(planned) => {
            if !over {
                draft.project(planned);
            }
            replicas::tell(job, planned, over || planned.suspended, draft.status);
            if !(over && muster_status::is_final(&muster)) {
                let mut said = context.planned(planned);
                if let Some(at) = planned.started_at {
                    let stored = muster.get(START_TIME).and_then(Value::as_str);
                    said[START_TIME] = time::kept_or_written(stored, at).into();
                }
                draft.announce_obstacle(&muster, &said);
                draft.status.insert("muster".to_owned(), said);
            }
        }
    }
    let events = draft.events;
    report_urgency::report(&stored, status, events, &COUNTERS)
}

/// The dialect's own part of a status in the making.
struct Draft<'a> {
    now: &'a str,
    conditions: Conditions,
    status: &'a mut Map<String, Value>,
    events: Vec<Event>,
}

impl Draft<'_> {
    fn project(&mut self, planned: &Status) {
        let made = matches!(
            planned.phase,
            Phase::Gathering | Phase::Launching | Phase::Running
        );
        if made {
            let said = "The job has been initialized successfully.";
            self.set(INITIALIZED, true, NONE, said);
        }
        self.pause_or_resume(planned.suspended);
        self.judge_replicas(planned);
        if planned.running {
            let said = "All pods are running normally.";
            if self.set(RUNNING, true, NONE, said) {
                self.tell(false, RUNNING, said);
            }
        }
        let phase = match &planned.outcome {
            Some(outcome) => self.conclude(&outcome.verdict, outcome.at),
            None if planned.suspended => PAUSED,
            None if self.conditions.holds(RUNNING) => RUNNING,
            None if self.conditions.get(PAUSED).is_some() => "Resuming",
            None => "Pending",
        };
        self.status.insert("phase".to_owned(), phase.into());
        let conditions = self.conditions.clone().without_update_times();
        if !conditions.is_empty() {
            self.status
                .insert("conditions".to_owned(), conditions.into_value());
        }
    }

    fn pause_or_resume(&mut self, paused: bool) {
        if paused {
            if self.set(PAUSED, true, PAUSED, "The job is paused; it has no pods.") {
                self.tell(false, PAUSED, "The job is paused.");
            }
            if self.conditions.get(RUNNING).is_some() {
                self.set(RUNNING, false, PAUSED, "The job is paused.");
            }
        } else if self.conditions.get(PAUSED).is_some()
            && self.set(PAUSED, false, "Resumed", "The job was resumed.")
        {
            self.tell(false, "Resumed", "The job was resumed.");
        }
    }

    fn judge_replicas(&mut self, planned: &Status) {
        if planned.outcome.is_some() || planned.suspended {
            return;
        }
        let failed = planned.pods.iter().find(|pod| replicas::has_failed(pod));
        match failed {
            Some(pod) => {
                let code = pod.exit_code.map(|code| format!(" with exit code {code}"));
                let said = format!("Pod {} failed{}.", pod.name, code.unwrap_or_default());
                if self.set(REPLICA_FAILURE, true, "ErrorInPod", &said) {
                    self.tell(true, "ErrorInPod", &said);
                }
            }
            None if planned.running => {
                let said = "All pods are running normally.";
                self.set(REPLICA_FAILURE, false, NONE, said);
            }
            None => {}
        }
    }

    /// Sets what the end of a job says, and returns its phase.
    fn conclude(&mut self, verdict: &Verdict, at: Timestamp) -> &'static str {
        let at = time::written(at);
        let (phase, said) = match verdict {
            Verdict::Succeeded => ("Succeeded", "The job exited successfully."),
            Verdict::Failed { message, .. } => (FAILED, message.as_str()),
        };
        let failed = phase == FAILED;
        if self.conditions.get(RUNNING).is_some() {
            self.set_at(RUNNING, false, phase, said, &at);
        }
        if !failed {
            let fine = "All pods finished.";
            self.set_at(REPLICA_FAILURE, false, "Finished", fine, &at);
        }
        self.set_at(COMPLETED, true, phase, said, &at);
        self.set_at(FAILED, failed, phase, said, &at);
        self.tell(failed, phase, said);
        phase
    }

    fn set(&mut self, name: &str, holds: bool, reason: &str, message: &str) -> bool {
        self.set_at(name, holds, reason, message, self.now)
    }

    fn set_at(&mut self, name: &str, holds: bool, reason: &str, message: &str, at: &str) -> bool {
        let condition = Condition {
            name,
            holds,
            reason,
            message,
        };
        self.conditions.set_since(condition, self.now, at)
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
