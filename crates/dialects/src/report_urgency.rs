//! How urgent the change of a status is, the same in every dialect. Must not know what a status means.

use contract::reason::Reason;
use serde_json::{Map, Value};

use crate::Urgency;
use crate::muster_history;

/// Progress messages in `status.muster`.
const PROGRESS: [&str; 3] = ["ready", "reason", "message"];

/// Compares the stored status with the one to write. `counters` are the dialect's own fields that may be
/// written late, as progress messages may; conditions, phases and times may not.
pub(crate) fn urgency(
    stored: &Map<String, Value>,
    status: &Map<String, Value>,
    counters: &[&str],
) -> Urgency {
    if stored == status || same_but_history(stored, status) {
        return Urgency::Unchanged;
    }
    if !same_but_progress(stored, status, counters) {
        return Urgency::Now;
    }
    let is_edited = generation(stored) != generation(status);
    // All that is said of a suspended job follows from its spec.
    let is_suspended = word(status, "phase") == "Suspended";
    if same_but(stored, status, &|_| false) || (is_edited && is_suspended) {
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

/// Nothing differs but what may be written late.
fn same_but_progress(
    stored: &Map<String, Value>,
    status: &Map<String, Value>,
    counters: &[&str],
) -> bool {
    same_but(stored, status, &|field| match field {
        Field::Top(name) => counters.contains(&name),
        Field::OfMuster(name) => PROGRESS.contains(&name),
    })
}

/// Nothing differs but what the status tells of the past, which is written with what is written anyway.
fn same_but_history(stored: &Map<String, Value>, status: &Map<String, Value>) -> bool {
    generation(stored) == generation(status)
        && stored.get(GENERATION) == status.get(GENERATION)
        && same_but(stored, status, &|_| false)
}

/// A field whose change may not matter.
enum Field<'a> {
    Top(&'a str),
    OfMuster(&'a str),
}

/// Nothing differs but the observed generation, which is in the status and in each condition of `muster`, the
/// past, and fields that do not matter. Compared where they are: every pass does it, and a status may be long.
fn same_but(
    stored: &Map<String, Value>,
    status: &Map<String, Value>,
    is_left_out: &dyn Fn(Field<'_>) -> bool,
) -> bool {
    let top = |name: &str| name == GENERATION || is_left_out(Field::Top(name));
    same_fields(stored, status, &top, &|name, before, after| {
        let (Value::Object(before), Value::Object(after), "muster") = (before, after, name) else {
            return before == after;
        };
        let of_muster = |name: &str| {
            muster_history::NAMES.contains(&name) || is_left_out(Field::OfMuster(name))
        };
        same_fields(
            before,
            after,
            &of_muster,
            &|name, before, after| match name {
                "conditions" => same_conditions(before, after),
                _ => before == after,
            },
        )
    })
}

fn same_conditions(before: &Value, after: &Value) -> bool {
    let (Value::Array(before), Value::Array(after)) = (before, after) else {
        return before == after;
    };
    let same = |(before, after): (&Value, &Value)| match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let is_generation = |name: &str| name == GENERATION;
            same_fields(before, after, &is_generation, &|_, before, after| {
                before == after
            })
        }
        _ => before == after,
    };
    before.len() == after.len() && before.iter().zip(after).all(same)
}

/// The fields that are not left out have the same names, and values that are `same`.
fn same_fields(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    is_left_out: &dyn Fn(&str) -> bool,
    same: &dyn Fn(&str, &Value, &Value) -> bool,
) -> bool {
    let mut before = before.iter().filter(|(name, _)| !is_left_out(name));
    let mut after = after.iter().filter(|(name, _)| !is_left_out(name));
    loop {
        match (before.next(), after.next()) {
            (None, None) => return true,
            (Some((name, before)), Some((other, after))) if name == other => {
                if !same(name, before, after) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

fn generation(status: &Map<String, Value>) -> Option<&Value> {
    let condition = status.get("muster")?.pointer("/conditions/0")?;
    condition.get(GENERATION)
}

/// The field with the generation that a status, or a condition, describes.
const GENERATION: &str = "observedGeneration";
