//! Hub to wire for v1: the status that Flyte and the training SDK read. Flyte takes the true
//! condition with the newest transition time for the truth, in whole seconds, so each new one is
//! later than all others. Decides nothing about the job: everything is a projection of the planner's
//! status.

use jiff::{SignedDuration, Timestamp};
use planner::{Status, Verdict};
use serde_json::Value;

use super::defaults::DIALECT_NAME;
use crate::conditions::{CREATED, Condition, FAILED, RUNNING, SUCCEEDED, SUSPENDED, text};
use crate::field_error::aggregate;
use crate::kubeflow::hub;
pub(super) use crate::kubeflow::status::recorded;
use crate::kubeflow::status::{
    COUNTERS, REASON_CREATED, REASON_RESUMED, REASON_RUNNING, REASON_SUCCEEDED, REASON_SUSPENDED,
    obstacle_reason,
};
use crate::status_draft::{Reporter, StatusDraft, replica_statuses};
use crate::{FieldError, Finding, Report, muster_status, time};

const RESTARTING: &str = "Restarting";
const REASON_RESTARTING: &str = "MPIJobRestarting";
const REASON_INVALID: &str = "MPIJobFailedValidation";

/// The status to write, and the events to announce.
pub(super) fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let reporter = Reporter {
        dialect: DIALECT_NAME,
        recorded,
        has_generation: true,
        counters: &COUNTERS,
        project,
        refuse,
        obstacle_reason,
    };
    reporter.report(job, finding, now)
}

fn project(draft: &mut StatusDraft<'_>, planned: &Status) {
    if draft.is_over {
        return;
    }
    create(draft);
    start(draft, planned.started_at);
    suspend_or_resume(draft, planned.suspended);
    let before = muster_status::replacements(draft.stored_muster);
    if planned.replacements.restarts > before.restarts {
        restart(draft);
    }
    match &planned.outcome {
        Some(outcome) => conclude(draft, &outcome.verdict, outcome.at),
        None if planned.running => run(draft),
        None => {}
    }
    draft.insert("replicaStatuses", replica_statuses(planned));
    draft.write_conditions();
}

/// A job that was never valid has failed: its clients look at conditions and times only, and would wait
/// forever. One that was valid may have pods, and the next edit may correct it, so an end would not be
/// true of it.
fn refuse(draft: &mut StatusDraft<'_>, errors: &[FieldError]) {
    let message = format!("MPIJob failed validation because {}", aggregate(errors));
    if draft.has_new_obstacle() {
        draft.warn(REASON_INVALID, &message);
    }
    if draft.conditions.holds(CREATED) {
        return;
    }
    create(draft);
    start(draft, None);
    let reason = REASON_INVALID.to_owned();
    end(draft, &Verdict::Failed { reason, message }, draft.now);
    draft.write_conditions();
    draft.muster["phase"] = FAILED.into();
    draft.muster["finished"] = true.into();
}

fn create(draft: &mut StatusDraft<'_>) {
    if draft.conditions.holds(CREATED) {
        return;
    }
    let message = sentence(draft, "is created.");
    let created = condition(CREATED, true, REASON_CREATED, &message);
    draft
        .conditions
        .put_first(created, &time::written(draft.now));
    draft.announce(REASON_CREATED, &message);
    if let Some(unused) = hub::unused_slots(draft.job) {
        draft.warn("SlotsPerWorkerUnused", &unused);
    }
}

/// Also for a job that is suspended: some clients give up on one that never started.
fn start(draft: &mut StatusDraft<'_>, started_at: Option<Timestamp>) {
    let is_known = draft.status.get("startTime").is_some_and(Value::is_string);
    let assumed = (!is_known).then_some(draft.now);
    draft.write_start_time(started_at.or(assumed));
}

/// The condition is not newer than `Created`: a client that does not know it still sees a queued job.
fn suspend_or_resume(draft: &mut StatusDraft<'_>, suspended: bool) {
    if suspended {
        let message = sentence(draft, "is suspended.");
        let now = time::written(draft.now);
        let created = draft.conditions.get(CREATED);
        let since = created.map(|created| text(created, "lastTransitionTime").to_owned());
        let held = condition(SUSPENDED, true, REASON_SUSPENDED, &message);
        let since = since.as_deref().unwrap_or(&now);
        if draft.conditions.set_since(held, &now, since) {
            draft.announce(REASON_SUSPENDED, &message);
        }
        if draft.conditions.get(RUNNING).is_some() {
            draft.set(RUNNING, false, REASON_SUSPENDED, &message);
        }
    } else if draft.conditions.get(SUSPENDED).is_some() {
        let message = sentence(draft, "is resumed.");
        draft.set_and_announce(SUSPENDED, false, REASON_RESUMED, &message);
    }
}

fn run(draft: &mut StatusDraft<'_>) {
    let message = sentence(draft, "is running.");
    draft.conditions.remove(RESTARTING);
    if set_true(draft, RUNNING, REASON_RUNNING, &message) {
        draft.announce(REASON_RUNNING, &message);
    }
}

fn restart(draft: &mut StatusDraft<'_>) {
    let message = sentence(
        draft,
        "is restarting because a replica was ended from outside.",
    );
    draft.conditions.remove(RUNNING);
    draft.conditions.remove(RESTARTING);
    set_true(draft, RESTARTING, REASON_RESTARTING, &message);
    draft.warn(REASON_RESTARTING, &message);
}

fn conclude(draft: &mut StatusDraft<'_>, verdict: &Verdict, at: Timestamp) {
    end(draft, verdict, at);
    match verdict {
        Verdict::Succeeded => {
            let message = sentence(draft, "is successfully completed.");
            draft.announce(REASON_SUCCEEDED, &message);
        }
        Verdict::Failed { reason, message } => draft.warn(reason, message),
    }
}

/// Exactly one terminal condition, and nothing beside it that looks like one.
fn end(draft: &mut StatusDraft<'_>, verdict: &Verdict, at: Timestamp) {
    draft.conditions.withdraw(RUNNING);
    for name in [RESTARTING, SUCCEEDED, FAILED] {
        draft.conditions.remove(name);
    }
    match verdict {
        Verdict::Succeeded => {
            let message = sentence(draft, "is successfully completed.");
            set_true(draft, SUCCEEDED, REASON_SUCCEEDED, &message);
        }
        Verdict::Failed { reason, message } => {
            set_true(draft, FAILED, reason, message);
        }
    }
    let completed = draft.status.entry("completionTime");
    completed.or_insert_with(|| time::written(at).into());
}

/// Sets a condition that holds from now on, later than every other that does.
fn set_true(draft: &mut StatusDraft<'_>, name: &str, reason: &str, message: &str) -> bool {
    let newest = draft.conditions.newest_true(name);
    let after = newest.map(|newest| newest + SignedDuration::from_secs(1));
    let since = after.map_or(draft.now, |after| after.max(draft.now));
    draft.set_since(name, true, reason, message, since)
}

/// `MPIJob <name> …`
fn sentence(draft: &StatusDraft<'_>, end: &str) -> String {
    format!("MPIJob {} {end}", draft.name())
}

fn condition<'a>(name: &'a str, holds: bool, reason: &'a str, message: &'a str) -> Condition<'a> {
    Condition {
        name,
        holds,
        reason,
        message,
    }
}
