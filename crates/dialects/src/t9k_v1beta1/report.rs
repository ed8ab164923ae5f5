//! Hub to wire for T9k: phase, six conditions, a task for each type of replica, and counts over all
//! pods. `Completed` means that a job has ended, not how. Decides nothing about the job: a recorded
//! end stands, and everything else is a projection of the planner's status.

mod replicas;

use jiff::Timestamp;
use planner::{Outcome, Phase, Recorded, Status, Verdict};
use serde_json::Value;

use super::DIALECT;
use crate::conditions::{Conditions, FAILED, RUNNING, text};
use crate::status_draft::{Reporter, StatusDraft};
use crate::{Finding, Report, muster_history, muster_status, time};

const INITIALIZED: &str = "Initialized";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const COMPLETED: &str = "Completed";
const PAUSED: &str = "Paused";

/// The reason of a condition that needs none.
const NONE: &str = "-";
/// In `status.muster`: when the job started, for which the API has no field.
const START_TIME: &str = "startTime";
const ALL_RUN: &str = "All pods are running normally.";

/// What the stored status records of the job.
pub(super) fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    let conditions = Conditions::of(status);
    let muster = status.get("muster").unwrap_or(&Value::Null);
    let ended = [COMPLETED, FAILED].map(|name| conditions.get(name));
    let ended = ended.into_iter().flatten();
    let mut times = ended.filter_map(|condition| time::read(text(condition, "lastTransitionTime")));
    // Readable or not, it is over, and a job that ended must not run again.
    let at = times.next().unwrap_or(Timestamp::UNIX_EPOCH);
    let verdict = conditions.verdict([FAILED, COMPLETED]);
    let seen = !conditions.is_empty() || !text(status, "phase").is_empty();
    Recorded {
        seen,
        keys: muster_status::keys(muster),
        gang: muster_status::gang(muster),
        history: muster_history::read(muster),
        started_at: time::read(text(muster, START_TIME)),
        ran: conditions.holds(RUNNING),
        suspended: conditions.holds(PAUSED),
        outcome: verdict.map(|verdict| Outcome { verdict, at }),
        replacements: muster_status::replacements(muster),
    }
}

/// The status to write, and the events to announce.
pub(super) fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let reporter = Reporter {
        dialect: DIALECT.name,
        recorded,
        has_generation: false,
        counters: &["tasks", "aggregate"],
        project,
        refuse: |draft, _| {
            draft.announce_obstacle(|reason| reason);
            if let Some(started) = draft.stored_muster.get(START_TIME) {
                draft.muster[START_TIME] = started.clone();
            }
            let phase = draft.status.entry("phase");
            phase.or_insert_with(|| "Pending".into());
        },
        obstacle_reason: |reason| reason,
    };
    reporter.report(job, finding, now)
}

fn project(draft: &mut StatusDraft<'_>, planned: &Status) {
    if !draft.is_over {
        set_conditions(draft, planned);
    }
    replicas::write(draft, planned);
    if let Some(at) = planned.started_at.filter(|_| !draft.muster.is_null()) {
        let stored = draft.stored_muster.get(START_TIME).and_then(Value::as_str);
        draft.muster[START_TIME] = time::kept_or_written(stored, at).into();
    }
}

fn set_conditions(draft: &mut StatusDraft<'_>, planned: &Status) {
    let is_initialized = matches!(
        planned.phase,
        Phase::Gathering | Phase::Launching | Phase::Running
    );
    if is_initialized {
        let message = "The job has been initialized successfully.";
        draft.set(INITIALIZED, true, NONE, message);
    }
    pause_or_resume(draft, planned.suspended);
    check_replicas(draft, planned);
    if planned.running && draft.set(RUNNING, true, NONE, ALL_RUN) {
        draft.announce(RUNNING, ALL_RUN);
    }
    let phase = match &planned.outcome {
        Some(outcome) => conclude(draft, outcome),
        None if planned.suspended => PAUSED,
        None if draft.conditions.holds(RUNNING) => RUNNING,
        None if draft.conditions.get(PAUSED).is_some() => "Resuming",
        None => "Pending",
    };
    draft.insert("phase", phase);
    draft.conditions.remove_update_times();
    if !draft.conditions.is_empty() {
        draft.write_conditions();
    }
}

fn pause_or_resume(draft: &mut StatusDraft<'_>, paused: bool) {
    if paused {
        if draft.set(PAUSED, true, PAUSED, "The job is paused; it has no pods.") {
            draft.announce(PAUSED, "The job is paused.");
        }
        if draft.conditions.get(RUNNING).is_some() {
            draft.set(RUNNING, false, PAUSED, "The job is paused.");
        }
    } else if draft.conditions.get(PAUSED).is_some() {
        draft.set_and_announce(PAUSED, false, "Resumed", "The job was resumed.");
    }
}

fn check_replicas(draft: &mut StatusDraft<'_>, planned: &Status) {
    if planned.outcome.is_some() || planned.suspended {
        return;
    }
    match planned.pods.iter().find(|pod| replicas::has_failed(pod)) {
        Some(pod) => {
            let code = pod.exit_code.map(|code| format!(" with exit code {code}"));
            let message = format!("Pod {} failed{}.", pod.name, code.unwrap_or_default());
            if draft.set(REPLICA_FAILURE, true, "ErrorInPod", &message) {
                draft.warn("ErrorInPod", &message);
            }
        }
        None if planned.running => {
            draft.set(REPLICA_FAILURE, false, NONE, ALL_RUN);
        }
        None => {}
    }
}

/// Writes the end of a job, and returns its phase.
fn conclude(draft: &mut StatusDraft<'_>, outcome: &Outcome) -> &'static str {
    let at = outcome.at;
    let (phase, message) = match &outcome.verdict {
        Verdict::Succeeded => ("Succeeded", "The job exited successfully."),
        Verdict::Failed { message, .. } => (FAILED, message.as_str()),
    };
    let failed = phase == FAILED;
    if draft.conditions.get(RUNNING).is_some() {
        draft.set_since(RUNNING, false, phase, message, at);
    }
    if !failed {
        draft.set_since(REPLICA_FAILURE, false, "Finished", "All pods finished.", at);
    }
    draft.set_since(COMPLETED, true, phase, message, at);
    draft.set_since(FAILED, failed, phase, message, at);
    match failed {
        true => draft.warn(phase, message),
        false => draft.announce(phase, message),
    }
    phase
}
