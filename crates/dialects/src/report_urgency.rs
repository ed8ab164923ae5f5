//! How urgent the change of a status is, the same in every dialect. Must not know what a status means.

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
    let pressing = |status: &Map<String, Value>| {
        let mut status = status.clone();
        status.retain(|name, _| !counters.contains(&name.as_str()));
        if let Some(Value::Object(muster)) = status.get_mut("muster") {
            muster.retain(|name, _| !PROGRESS.contains(&name.as_str()));
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
