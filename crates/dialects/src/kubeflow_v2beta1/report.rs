//! Hub to wire: the status and the events that clients of Kubeflow's controller know, byte for
//! byte. Decides nothing about the job: a recorded outcome stands, and everything else is a
//! projection of the planner's status.

use jiff::Timestamp;
use planner::{Status, Verdict};
use serde_json::Value;

use super::defaults::DIALECT_NAME;
use crate::conditions::{CREATED, Condition, FAILED, RUNNING, SUCCEEDED, SUSPENDED};
use crate::field_error::aggregate;
use crate::kubeflow::KIND;
use crate::kubeflow::hub;
pub(super) use crate::kubeflow::status::recorded;
use crate::kubeflow::status::{
    COUNTERS, REASON_CREATED, REASON_RESUMED, REASON_RUNNING, REASON_SUCCEEDED, REASON_SUSPENDED,
    obstacle_reason,
};
use crate::status_draft::{Reporter, StatusDraft, replica_statuses};
use crate::{FieldError, Finding, Report, time};

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

fn refuse(draft: &mut StatusDraft<'_>, errors: &[FieldError]) {
    if draft.has_new_obstacle() {
        let message = format!("Found validation errors: {}", aggregate(errors));
        draft.warn("ValidationError", &message);
    }
}

/// In the order in which Kubeflow's controller evaluates, because the order of the condition list
/// follows from it.
fn project(draft: &mut StatusDraft<'_>, planned: &Status) {
    if draft.is_over {
        return;
    }
    if draft.conditions.is_empty() {
        create(draft);
    }
    suspend_or_resume(draft, planned.suspended);
    draft.write_start_time(planned.started_at);
    conclude(draft, planned);
    draft.insert("replicaStatuses", replica_statuses(planned));
    run(draft, planned);
    draft.write_conditions();
}

fn create(draft: &mut StatusDraft<'_>) {
    let message = draft.sentence(KIND, "is created.");
    draft.set_and_announce(CREATED, true, REASON_CREATED, &message);
    let restart = "/spec/mpiReplicaSpecs/Launcher/template/spec/restartPolicy";
    if !draft.text(restart).is_empty() {
        draft.warn(
            "SetPodTemplateRestartPolicy",
            "Restart policy in pod template overridden by restart policy in replica spec",
        );
    }
    if let Some(unused) = hub::unused_slots(draft.job) {
        draft.warn("SlotsPerWorkerUnused", &unused);
    }
}

fn suspend_or_resume(draft: &mut StatusDraft<'_>, suspended: bool) {
    if suspended {
        draft.set_and_announce(SUSPENDED, true, REASON_SUSPENDED, "MPIJob suspended");
    } else if draft.conditions.get(SUSPENDED).is_some() {
        draft.set_and_announce(SUSPENDED, false, REASON_RESUMED, "MPIJob resumed");
    }
}

fn conclude(draft: &mut StatusDraft<'_>, planned: &Status) {
    let Some(outcome) = &planned.outcome else {
        return;
    };
    if !draft
        .status
        .get("completionTime")
        .is_some_and(Value::is_string)
    {
        draft.insert("completionTime", time::written(outcome.at));
    }
    draft.conditions.withdraw(RUNNING);
    match &outcome.verdict {
        Verdict::Succeeded => {
            let message = draft.sentence(KIND, "successfully completed.");
            draft.conditions.withdraw(FAILED);
            draft.set(SUCCEEDED, true, REASON_SUCCEEDED, &message);
            draft.announce(REASON_SUCCEEDED, &message);
        }
        Verdict::Failed { reason, message } => {
            draft.set(FAILED, true, reason, message);
            draft.warn(reason, message);
        }
    }
}

fn run(draft: &mut StatusDraft<'_>, planned: &Status) {
    if planned.suspended {
        let message = draft.sentence(KIND, "is suspended.");
        draft.set(RUNNING, false, REASON_SUSPENDED, &message);
    } else if planned.outcome.is_some() {
        if draft.conditions.get(RUNNING).is_none() {
            let message = draft.sentence(KIND, "is finished but Running condition was never set.");
            let completed = draft.status.get("completionTime").and_then(Value::as_str);
            let condition = Condition {
                name: RUNNING,
                holds: false,
                reason: REASON_RUNNING,
                message: &message,
            };
            draft
                .conditions
                .set(condition, completed.unwrap_or_default());
        }
    } else if planned.running {
        let message = draft.sentence(KIND, "is running.");
        if draft.set(RUNNING, true, REASON_RUNNING, &message) {
            // The event has always lacked the period that the condition has.
            draft.announce(REASON_RUNNING, message.trim_end_matches('.'));
        }
    }
}
