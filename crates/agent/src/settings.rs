//! What the operator set for this process, read from its environment. Decides what an unusable value
//! counts as; the names are in `contract::env`.

use std::path::PathBuf;
use std::time::Duration;

use contract::{env, protocol};

/// The value of a variable, unless it is empty or not text.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A path from a variable, or the usual one.
pub(crate) fn path(name: &str, default: &str) -> PathBuf {
    variable(name).map_or_else(|| default.into(), PathBuf::from)
}

/// Nobody waits longer, and the clock does not overflow.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A whole number of seconds from a variable; what is not a number counts as not set.
pub(crate) fn seconds(name: &str) -> Option<Duration> {
    let seconds = variable(name)?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(WAIT_MAX))
}

/// Time between SIGTERM and SIGKILL.
pub(crate) fn grace() -> Duration {
    seconds(env::GRACE).unwrap_or(Duration::from_secs(5))
}

/// Port of hosts that are listed without one.
pub(crate) fn port() -> u16 {
    variable(env::PORT)
        .and_then(|port| port.trim().parse().ok())
        .unwrap_or(protocol::AGENT_PORT)
}

/// Ranks per host.
pub(crate) fn slots() -> usize {
    variable(env::SLOTS)
        .and_then(|slots| slots.trim().parse().ok())
        .unwrap_or(1)
}

/// How many workers the job asked for when its pods were made, if the operator said so.
pub(crate) fn workers() -> Option<usize> {
    variable(env::WORKERS)?.trim().parse().ok()
}
