//! `status.muster`: the state of a job, the same in every dialect, beside the dialect's own status and
//! never instead of it. Decides its contents; the dialect's report decides whether and when it is
//! written.

use contract::reason::{Reason, Stage};
use planner::job::HostNames;
use planner::site::{FoundGang, Transport};
use planner::text::truncated;
use planner::{Job, KeyRecord, Phase, Replacements, Status, Verdict};
use serde_json::{Value, json};

use crate::conditions::text;
use crate::field::{
    BOOLEAN, Field, FieldType, INT32, INT64, LIST, OBJECT, Shape, TEXT, TIME, fields,
};
use crate::muster_history;

/// Fields that count pods which were replaced.
const RESTARTS: &str = "restarts";
const LOST_WORKERS: &str = "lostWorkers";
const REPLACED: &str = "replaced";
/// Type of the one condition: the job and its objects are accepted.
const ACCEPTED: &str = "Accepted";
/// The message of a condition holds no more than this, as in the standard schema.
const CONDITION_MESSAGE_BYTES_MAX: usize = 32_768;
/// The message beside the phase is for a person at a terminal; the condition has all of it.
const MESSAGE_BYTES_MAX: usize = 1024;

/// What `status.muster` holds.
pub(crate) const FIELDS: &[Field] = fields! {
    "status.muster": OBJECT => "The state of the job, in the same words for every API.";
    "status.muster.conditions": Shape::of(FieldType::ListByType) => "";
    "status.muster.conditions[].type": TEXT.required() => "";
    "status.muster.conditions[].status": TEXT.one_of(&TRUTH_VALUES).required() => "";
    "status.muster.conditions[].reason": TEXT.required() => "";
    "status.muster.conditions[].message": TEXT.required() => "";
    "status.muster.conditions[].lastTransitionTime": TIME.required() => "";
    "status.muster.conditions[].observedGeneration": INT64 => "";
    "status.muster.dialect": TEXT => "The API that the job was written in.";
    "status.muster.phase": TEXT => "Waiting, Suspended, Running, Succeeded or Failed.";
    "status.muster.finished": BOOLEAN => "The job is over; phase says how it ended.";
    "status.muster.reason": TEXT => "Why the job waits or why it failed, in one word.";
    "status.muster.message": TEXT => "The same in a sentence.";
    "status.muster.ready": TEXT => "How many workers are Ready, of how many.";
    "status.muster.transport": TEXT => "How mpirun reaches the workers: SSH or Agent.";
    "status.muster.startTime": TIME
        => "When the job started, where the API has no other field for it.";
    "status.muster.restarts": INT32 => "How many pods were replaced after a failure.";
    "status.muster.lostWorkers": INT32
        => "How many workers were lost and replaced while the launcher went on (spec.muster.recovery).";
    "status.muster.replaced": TEXT => "UID of the pod that was replaced last.";
    "status.muster.milestones": OBJECT
        => "When the job got how far since it was started; what has not happened, or what nobody noted, is absent.";
    "status.muster.milestones.created": TIME => "The job was created.";
    "status.muster.milestones.admitted": TIME => "The job was first reconciled, or was resumed.";
    "status.muster.milestones.podsCreated": TIME => "All workers had a pod.";
    "status.muster.milestones.scheduled": TIME => "All workers had a node.";
    "status.muster.milestones.imagesReady": TIME
        => "The containers of all workers ran, so all images were there.";
    "status.muster.milestones.workersReady": TIME => "All workers were Ready.";
    "status.muster.milestones.gatePassed": TIME
        => "All workers had answered the launcher, which waits for that.";
    "status.muster.milestones.ranksStarted": TIME
        => "Ranks ran on all hosts that took part (transport Agent; known when the program has ended).";
    "status.muster.milestones.ended": TIME => "The job ended.";
    "status.muster.milestones.cleanedUp": TIME
        => "The pods that the job does not keep were gone, if the status was written after that.";
    "status.muster.slowest": LIST.max_items(3)
        => "Workers that were ready notably later than the median worker, the latest first.";
    "status.muster.slowest[].worker": TEXT => "Name of the worker's pod.";
    "status.muster.slowest[].node": TEXT => "Its node.";
    "status.muster.slowest[].phase": TEXT
        => "What took longer than in other workers: Scheduling, Pulling, Starting or Waiting.";
    "status.muster.slowest[].seconds": INT32 => "How long that took.";
    "status.muster.attempts": LIST.max_items(10)
        => "How often the program was started, where that may be more than once; the last ones.";
    "status.muster.attempts[].number": INT32 => "Which one, from 1.";
    "status.muster.attempts[].startedAt": TIME => "When it began.";
    "status.muster.attempts[].endedAt": TIME => "When it ended.";
    "status.muster.attempts[].reason": TEXT => "Why it ended; absent if it succeeded.";
    "status.muster.gang": TEXT
        => "Who places all pods of the job at once: the scheduler that was found (gang Auto), or None.";
    "status.muster.keys": OBJECT => "The Secret with the job's keys, recorded before it is created.";
    "status.muster.keys.secret": TEXT => "Name of the Secret.";
    "status.muster.keys.workers": INT32 => "How many workers have keys in it (transport Agent).";
};

/// Every `status` of a condition.
pub(crate) const TRUTH_VALUES: [&str; 3] = ["True", "False", "Unknown"];

/// Everything that goes into `status.muster`, and what is stored there already.
pub(crate) struct StatusContext<'a> {
    /// `status.muster` as stored, or null.
    pub(crate) stored: &'a Value,
    /// The API that the job was written in.
    pub(crate) dialect: &'a str,
    /// `metadata.creationTimestamp`, or empty.
    pub(crate) created: &'a str,
    /// `metadata.generation`.
    pub(crate) generation: i64,
    /// The time, as written.
    pub(crate) now: &'a str,
}

/// What blocks a job from outside.
struct Obstacle<'a> {
    reason: &'a str,
    message: &'a str,
}

impl StatusContext<'_> {
    /// Of a job that was planned.
    pub(crate) fn planned(&self, status: &Status) -> Value {
        let obstacle = status.outcome.is_none().then(|| obstacle(status)).flatten();
        let mut muster = json!({
            "dialect": self.dialect,
            "phase": phase(status),
            "transport": status.transport,
            "ready": format!("{}/{}", status.ready, status.wanted),
            "finished": status.outcome.is_some(),
            "conditions": [self.accepted(obstacle)],
        });
        if let Some(reason) = status.reason {
            muster["reason"] = reason.as_str().into();
        }
        let replacements = &status.replacements;
        for (name, count) in [
            (RESTARTS, replacements.restarts),
            (LOST_WORKERS, replacements.lost_workers),
        ] {
            if count > 0 {
                muster[name] = count.into();
            }
        }
        if let Some(last) = &replacements.last {
            muster[REPLACED] = last.as_str().into();
        }
        if let Some(KeyRecord { secret, workers }) = &status.keys {
            muster["keys"] = json!({"secret": secret});
            if let Some(workers) = workers {
                muster["keys"]["workers"] = (*workers).into();
            }
        }
        if let Some(gang) = status.gang {
            muster["gang"] = gang.as_str().into();
        }
        if !status.message.is_empty() {
            muster["message"] = truncated(&status.message, MESSAGE_BYTES_MAX).into();
        }
        muster_history::write(&status.history, self.created, &mut muster);
        muster
    }

    /// Of an invalid job. Pods that run keep running, so such a phase stays.
    pub(crate) fn invalid(&self, problem: &str) -> Value {
        let phase = match text(self.stored, "phase") {
            kept @ ("Running" | "Suspended") => kept,
            _ => "Waiting",
        };
        let reason = Reason::Invalid.as_str();
        let mut muster = json!({
            "dialect": self.dialect,
            "phase": phase,
            "reason": reason,
            "message": truncated(problem, MESSAGE_BYTES_MAX),
            "finished": false,
            "conditions": [self.accepted(Some(Obstacle { reason, message: problem }))],
        });
        for kept in [
            "transport",
            "ready",
            RESTARTS,
            LOST_WORKERS,
            REPLACED,
            "gang",
            "keys",
        ]
        .into_iter()
        .chain(muster_history::NAMES)
        {
            if let Some(value) = self.stored.get(kept) {
                muster[kept] = value.clone();
            }
        }
        muster
    }

    /// Of a job of which nothing but the reason and the message is known.
    pub(crate) fn unseen(&self, status: &Status) -> Value {
        let mut muster = match self.stored {
            Value::Object(_) => self.stored.clone(),
            _ => json!({"dialect": self.dialect}),
        };
        muster["reason"] = status.reason.map(Reason::as_str).into();
        muster["message"] = truncated(&status.message, MESSAGE_BYTES_MAX).into();
        muster["conditions"] = json!([self.accepted(obstacle(status))]);
        muster
    }

    fn accepted(&self, obstacle: Option<Obstacle<'_>>) -> Value {
        let (status, reason, message) = match obstacle {
            Some(obstacle) => ("False", obstacle.reason, obstacle.message),
            None => (
                "True",
                ACCEPTED,
                "the job is valid and nothing it needs is refused",
            ),
        };
        let stored = accepted(self.stored);
        let since = stored
            .filter(|stored| text(stored, "status") == status)
            .map(|stored| text(stored, "lastTransitionTime"))
            .filter(|since| !since.is_empty());
        json!({
            "type": ACCEPTED,
            "status": status,
            "reason": reason,
            "message": truncated(message, CONDITION_MESSAGE_BYTES_MAX),
            "lastTransitionTime": since.unwrap_or(self.now),
            "observedGeneration": self.generation,
        })
    }
}

/// The reason and the message of what blocks the job, if they differ from what `stored` has.
pub(crate) fn new_obstacle<'v>(stored: &Value, muster: &'v Value) -> Option<(&'v str, &'v str)> {
    let current = |muster: &'v Value| {
        let condition = accepted(muster).filter(|item| text(item, "status") == "False")?;
        Some((text(condition, "reason"), text(condition, "message")))
    };
    let known = accepted(stored).filter(|item| text(item, "status") == "False");
    let known = known.map(|item| (text(item, "reason"), text(item, "message")));
    current(muster).filter(|now| known != Some(*now))
}

/// The pods that were replaced.
pub(crate) fn replacements(muster: &Value) -> Replacements {
    let count = |name: &str| {
        let count = muster.get(name).and_then(Value::as_u64);
        let count = count.and_then(|count| u32::try_from(count).ok());
        count.unwrap_or_default()
    };
    let last = muster.get(REPLACED).and_then(Value::as_str);
    Replacements {
        restarts: count(RESTARTS),
        lost_workers: count(LOST_WORKERS),
        last: last.map(str::to_owned),
    }
}

/// The Secret with the job's keys.
pub(crate) fn keys(muster: &Value) -> Option<KeyRecord> {
    let keys = muster.get("keys")?;
    let workers = keys.get("workers").and_then(Value::as_u64);
    Some(KeyRecord {
        secret: keys.get("secret")?.as_str()?.to_owned(),
        workers: workers.and_then(|workers| u32::try_from(workers).ok()),
    })
}

/// Who was found to place the job's pods together.
pub(crate) fn gang(muster: &Value) -> Option<FoundGang> {
    FoundGang::named(text(muster, "gang"))
}

/// The API that the job was found to be written in, when that was first recorded.
pub(crate) fn dialect(job: &Value) -> &str {
    let muster = job.pointer("/status/muster").unwrap_or(&Value::Null);
    text(muster, "dialect")
}

/// The job with the transport that it began with. An operator that comes back with another default must
/// not mix two of them in one job, nor must a client that drops the field. By the agent, workers have
/// these names.
pub(crate) fn begun(job: Job, object: &Value, by_agent: HostNames) -> Job {
    let muster = object.pointer("/status/muster").unwrap_or(&Value::Null);
    let is_begun = muster.get("keys").is_some() || job.takes_site_transport();
    match Transport::named(text(muster, "transport")) {
        Some(transport) if is_begun => job.begun_with(transport, by_agent),
        Some(_) | None => job,
    }
}

/// The stored `muster` is final: the job was over when it was written.
pub(crate) fn is_final(muster: &Value) -> bool {
    muster.get("finished") == Some(&Value::Bool(true))
}

fn accepted(muster: &Value) -> Option<&Value> {
    let conditions = muster.get("conditions").and_then(Value::as_array)?;
    conditions
        .iter()
        .find(|item| text(item, "type") == ACCEPTED)
}

/// `phase`, for people.
fn phase(status: &Status) -> &'static str {
    match status.outcome.as_ref().map(|outcome| &outcome.verdict) {
        Some(Verdict::Succeeded) => return "Succeeded",
        Some(Verdict::Failed { .. }) => return "Failed",
        None => {}
    }
    match status.phase {
        Phase::Running => "Running",
        Phase::Suspended => "Suspended",
        Phase::Deleting
        | Phase::Preparing
        | Phase::Gathering
        | Phase::Launching
        | Phase::Blocked
        | Phase::Finishing
        | Phase::Finished
        | Phase::LauncherExited => "Waiting",
    }
}

fn obstacle(status: &Status) -> Option<Obstacle<'_>> {
    let blocks = |reason: &Reason| reason.stage() == Stage::Blocked;
    let reason = status.reason.filter(blocks)?;
    Some(Obstacle {
        reason: reason.as_str(),
        message: &status.message,
    })
}
