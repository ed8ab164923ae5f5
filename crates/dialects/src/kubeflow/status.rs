//! The status that clients of kubeflow.org's MPIJob read, as far as all versions write the same: its
//! reasons, and what is read back of it.

use contract::Reason;
use jiff::Timestamp;
use planner::{Outcome, Recorded};
use serde_json::Value;

use crate::conditions::{Conditions, FAILED, RUNNING, SUCCEEDED, SUSPENDED, text};
use crate::{muster_history, muster_status, time};

pub(crate) const REASON_CREATED: &str = "MPIJobCreated";
pub(crate) const REASON_RUNNING: &str = "MPIJobRunning";
pub(crate) const REASON_SUSPENDED: &str = "MPIJobSuspended";
pub(crate) const REASON_RESUMED: &str = "MPIJobResumed";
pub(crate) const REASON_SUCCEEDED: &str = "MPIJobSucceeded";
const REASON_FAILED: &str = "MPIJobFailed";

/// Fields that may be written late.
pub(crate) const COUNTERS: [&str; 1] = ["replicaStatuses"];

/// What the stored status records of the job.
pub(crate) fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    let conditions = Conditions::of(status);
    // Readable or not, it is set, and a job that ended must not run again.
    let completed = status.get("completionTime").and_then(Value::as_str);
    let ended_at = completed.map(|at| time::read(at).unwrap_or(Timestamp::UNIX_EPOCH));
    let verdict = conditions.verdict([SUCCEEDED, FAILED]).zip(ended_at);
    let muster = status.get("muster").unwrap_or(&Value::Null);
    Recorded {
        replacements: muster_status::replacements(muster),
        keys: muster_status::keys(muster),
        gang: muster_status::gang(muster),
        history: muster_history::read(muster),
        seen: !conditions.is_empty(),
        started_at: time::read(text(status, "startTime")),
        ran: conditions.holds(RUNNING),
        suspended: conditions.holds(SUSPENDED),
        outcome: verdict.map(|(verdict, at)| Outcome { verdict, at }),
    }
}

/// The reason of the event for what blocks a job.
pub(crate) fn obstacle_reason(reason: &str) -> &str {
    match Reason::from_text(reason) {
        Some(Reason::NameTaken) => "ErrResourceExists",
        _ => REASON_FAILED,
    }
}
