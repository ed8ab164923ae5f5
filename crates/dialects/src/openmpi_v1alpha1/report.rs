//! Hub to wire for the openmpi component, which had no status: conditions, times and counts as other
//! jobs here have them. Decides nothing about the job: a recorded end stands, and everything else is a
//! projection of the planner's status.

use jiff::Timestamp;
use planner::{Count, Outcome, Recorded, Status, Verdict};
use serde_json::{Value, json};

use super::{DIALECT, KIND};
use crate::conditions::{CREATED, Conditions, FAILED, RUNNING, SUCCEEDED, text};
use crate::status_draft::{Reporter, StatusDraft};
use crate::{Finding, Report, muster_history, muster_status, time};

/// What the stored status records of the job.
pub(super) fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    let conditions = Conditions::of(status);
    // Readable or not, it is over, and a job that ended must not run again.
    let at = time::read(text(status, "completionTime")).unwrap_or(Timestamp::UNIX_EPOCH);
    let verdict = conditions.verdict([FAILED, SUCCEEDED]);
    let muster = status.get("muster").unwrap_or(&Value::Null);
    Recorded {
        gang: muster_status::gang(muster),
        history: muster_history::read(muster),
        seen: !conditions.is_empty(),
        started_at: time::read(text(status, "startTime")),
        ran: conditions.get(RUNNING).is_some(),
        outcome: verdict.map(|verdict| Outcome { verdict, at }),
        ..Recorded::default()
    }
}

/// The status to write, and the events to announce.
pub(super) fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let reporter = Reporter {
        dialect: DIALECT.name,
        recorded,
        has_generation: true,
        counters: &["master", "workers"],
        project,
        refuse: |draft, _| draft.announce_obstacle(|reason| reason),
        obstacle_reason: |reason| reason,
    };
    reporter.report(job, finding, now)
}

fn project(draft: &mut StatusDraft<'_>, planned: &Status) {
    if draft.is_over {
        return;
    }
    if draft.conditions.is_empty() {
        let message = draft.sentence(KIND, "is created.");
        draft.set_and_announce(CREATED, true, "OpenMPICreated", &message);
    }
    draft.write_start_time(planned.started_at);
    if planned.running {
        let message = draft.sentence(KIND, "is running.");
        draft.set_and_announce(RUNNING, true, "OpenMPIRunning", &message);
    }
    if let Some(outcome) = &planned.outcome {
        conclude(draft, outcome);
    }
    if let Some(master) = planned.launcher {
        draft.insert("master", counters(master));
    }
    draft.insert("workers", counters(planned.workers));
    draft.write_conditions();
}

fn conclude(draft: &mut StatusDraft<'_>, outcome: &Outcome) {
    let (name, reason, message) = match &outcome.verdict {
        Verdict::Succeeded => {
            let message = draft.sentence(KIND, "ended: its master exited with 0.");
            (SUCCEEDED, "OpenMPISucceeded", message)
        }
        Verdict::Failed { reason, message } => (FAILED, reason.as_str(), message.clone()),
    };
    if draft.conditions.holds(RUNNING) {
        draft.set_since(RUNNING, false, reason, &message, outcome.at);
    }
    draft.set_since(name, true, reason, &message, outcome.at);
    match name {
        FAILED => draft.warn(reason, &message),
        _ => draft.announce(reason, &message),
    }
    draft.insert("completionTime", time::written(outcome.at));
}

fn counters(count: Count) -> Value {
    json!({"active": count.active, "succeeded": count.succeeded, "failed": count.failed})
}
