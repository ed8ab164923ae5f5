//! Times on the wire: RFC 3339 in whole seconds, as the Kubernetes API writes them. Decides only
//! the spelling.

use jiff::Timestamp;

/// `2026-11-15T22:30:38Z`.
pub(crate) fn written(at: Timestamp) -> String {
    whole_seconds(at).to_string()
}

/// The instant that a stored text names, if it names one.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// The text for `at`: the stored one where it names the same second, so that another writer's
/// spelling makes no difference.
pub(crate) fn kept_or_written(stored: Option<&str>, at: Timestamp) -> String {
    match stored {
        Some(text) if read(text).map(whole_seconds) == Some(whole_seconds(at)) => text.to_owned(),
        _ => written(at),
    }
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).expect("a timestamp's own seconds are in range")
}
