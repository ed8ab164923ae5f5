//! A report on its way out, the same in every dialect: how urgent a change of a status is, and how long
//! an event may be. Must not know what a status says.

use planner::text::truncated;
use serde_json::{Map, Value};

use crate::{Event, Report, Urgency};

/// The API server refuses events with longer messages.
const EVENT_MESSAGE_BYTES_MAX: usize = 1024;
/// Words of progress in `status.muster`.
const PROGRESS: [&str; 3] = ["ready", "reason", "message"];

/// A status as it is to be stored, how urgent that is, and what to announce. `counters` are the fields of
/// the dialect's own that may wait, as words of progress may; conditions, phases and times may not.
pub(crate) fn report(
    stored: &Map<String, Value>,
    status: Map<String, Value>,
    mut events: Vec<Event>,
    counters: &[&str],
) -> Report {
    for event in &mut events {
        event.message = truncated(&event.message, EVENT_MESSAGE_BYTES_MAX);
    }
    Report {
        urgency: urgency(stored, &status, counters),
        status: Value::Object(status),
        events,
    }
}

fn urgency(stored: &Map<String, Value>, status: &Map<String, Value>, counters: &[&str]) -> Urgency {
    let pressing = |status: &Map<String, Value>| {
        let mut status = status.clone();
        for counter in counters {
            status.remove(*counter);
        }
        if let Some(Value::Object(muster)) = status.get_mut("muster") {
            for word in PROGRESS {
                muster.remove(word);
            }
        }
        status
    };
    if pressing(stored) != pressing(status) {
        Urgency::Now
    } else if stored != status {
        Urgency::WhenQuiet
    } else {
        Urgency::Unchanged
    }
}
