//! The status that clients of kubeflow.org's MPIJob read, as far as all versions say the same: what
//! is read back of it, how pods are counted, and when a change must be written.

use jiff::Timestamp;
use planner::{Count, Outcome, Recorded, Status, Verdict};
use serde_json::{Map, Value, json};

use crate::conditions::{Conditions, text};
use crate::{Event, Report, muster_status, report_urgency, time};

pub(crate) const CREATED: &str = "Created";
pub(crate) const RUNNING: &str = "Running";
pub(crate) const SUSPENDED: &str = "Suspended";
pub(crate) const SUCCEEDED: &str = "Succeeded";
pub(crate) const FAILED: &str = "Failed";

pub(crate) const REASON_CREATED: &str = "MPIJobCreated";
pub(crate) const REASON_RUNNING: &str = "MPIJobRunning";
pub(crate) const REASON_SUSPENDED: &str = "MPIJobSuspended";
pub(crate) const REASON_RESUMED: &str = "MPIJobResumed";
pub(crate) const REASON_SUCCEEDED: &str = "MPIJobSucceeded";
const REASON_FAILED: &str = "MPIJobFailed";

/// They may wait.
const COUNTERS: [&str; 1] = ["replicaStatuses"];

/// What the job's status says already.
pub(crate) fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    let conditions = Conditions::of(status);
    let moment = |key: &str| status.get(key).and_then(Value::as_str);
    let verdict = if conditions.holds(SUCCEEDED) {
        Some(Verdict::Succeeded)
    } else if conditions.holds(FAILED) {
        conditions.get(FAILED).map(|condition| Verdict::Failed {
            reason: text(condition, "reason").to_owned(),
            message: text(condition, "message").to_owned(),
        })
    } else {
        None
    };
    let ended_at = moment("completionTime").map(|written| {
        // Unreadable or not, it is set, and a job that ended must not run again.
        time::read(written).unwrap_or(Timestamp::UNIX_EPOCH)
    });
    let muster = status.get("muster").unwrap_or(&Value::Null);
    let (restarts, replaced) = muster_status::replacements(muster);
    Recorded {
        restarts,
        replaced,
        seen: !conditions.is_empty(),
        started_at: moment("startTime").and_then(time::read),
        ran: conditions.get(RUNNING).is_some(),
        suspended: conditions.holds(SUSPENDED),
        outcome: verdict
            .zip(ended_at)
            .map(|(verdict, at)| Outcome { verdict, at }),
    }
}

/// Zeros are left out, as clients that compare for equality expect.
fn counters(count: Count) -> Value {
    let counters = [
        ("active", count.active),
        ("succeeded", count.succeeded),
        ("failed", count.failed),
    ];
    let said = counters.into_iter().filter(|(_, number)| *number > 0);
    json!(
        said.map(|(name, number)| (name.to_owned(), number))
            .collect::<std::collections::BTreeMap<_, _>>()
    )
}

/// `replicaStatuses`: the launcher has no entry before it exists.
pub(crate) fn replica_statuses(planned: &Status) -> Value {
    let launcher = planned.launcher.map(|count| ("Launcher", count));
    let both = launcher.into_iter().chain([("Worker", planned.workers)]);
    let entries = both.map(|(role, count)| (role.to_owned(), counters(count)));
    Value::Object(entries.collect())
}

/// A status as it is to be stored, how urgent that is, and what to announce.
pub(crate) fn report(
    stored: &Map<String, Value>,
    status: Map<String, Value>,
    events: Vec<Event>,
) -> Report {
    report_urgency::report(stored, status, events, &COUNTERS)
}

/// What to announce of an obstacle that is new.
pub(crate) fn obstacle(stored: &Value, said: &Value) -> Option<Event> {
    let (reason, message) = muster_status::new_obstacle(stored, said)?;
    let reason = match reason {
        "NameTaken" => "ErrResourceExists",
        _ => REASON_FAILED,
    };
    Some(Event {
        warning: true,
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}
