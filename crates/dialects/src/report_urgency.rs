//! How urgent the change of a status is, the same in every dialect. Must not know what a status means.

use contract::reason::Reason;
use serde_json::{Map, Value};

use crate::Urgency;

/// Progress messages in `status.muster`.
const PROGRESS: [&str; 3] = ["ready", "reason", "message"];

/// Compares the stored status with the one to write. `counters` are the dialect's own fields that may be
/// written late, as progress messages may; conditions, phases and times may not.
pub(crate) fn urgency(
    stored: &Map<String, Value>,
    status: &Map<String, Value>,
    counters: &[&str],
) -> Urgency {
    if stored == status {
        return Urgency::Unchanged;
    }
    let (before, after) = (without_generation(stored), without_generation(status));
    if without_progress(&before, counters) != without_progress(&after, counters) {
        return Urgency::Now;
    }
    let is_edited = generation(stored) != generation(status);
    // All that is said of a suspended job follows from its spec.
    let is_suspended = word(status, "phase") == "Suspended";
    if before == after || (is_edited && is_suspended) {
        return Urgency::Edit;
    }
    let (old, new) = (word(stored, "reason"), word(status, "reason"));
    if old != new && (is_trouble(old) || is_trouble(new)) {
        Urgency::Trouble
    } else {
        Urgency::Progress
    }
}

/// Whether a reason tells more than that the pods are starting, as those of every job do.
fn is_trouble(reason: &str) -> bool {
    let reason = Reason::from_text(reason);
    reason.is_some_and(|reason| ![Reason::Starting, Reason::WaitingForWorkers].contains(&reason))
}

fn word<'s>(status: &'s Map<String, Value>, name: &str) -> &'s str {
    let muster = status.get("muster").and_then(|muster| muster.get(name));
    muster.and_then(Value::as_str).unwrap_or_default()
}

fn without_progress(status: &Map<String, Value>, counters: &[&str]) -> Map<String, Value> {
    let mut status = status.clone();
    status.retain(|name, _| !counters.contains(&name.as_str()));
    if let Some(Value::Object(muster)) = status.get_mut("muster") {
        muster.retain(|name, _| !PROGRESS.contains(&name.as_str()));
    }
    status
}

/// Without the observed generation, which is in the status and in each condition of `muster`.
fn without_generation(status: &Map<String, Value>) -> Map<String, Value> {
    let mut status = status.clone();
    status.remove(GENERATION);
    let conditions = status
        .get_mut("muster")
        .and_then(|muster| muster.get_mut("conditions"))
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if let Value::Object(condition) = condition {
            condition.remove(GENERATION);
        }
    }
    status
}

fn generation(status: &Map<String, Value>) -> Option<&Value> {
    let condition = status.get("muster")?.pointer("/conditions/0")?;
    condition.get(GENERATION)
}

/// The field with the generation that a status, or a condition, describes.
const GENERATION: &str = "observedGeneration";
