//! What a job's status records. It is the only memory between two reconciles.

use jiff::Timestamp;

use crate::history::History;
use crate::site::FoundGang;

/// How a job ended. Once recorded it never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Well or badly.
    pub verdict: Verdict,
    /// When.
    pub at: Timestamp,
}

/// Well or badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A launcher ended with 0.
    Succeeded,
    /// It did not, for this reason.
    Failed {
        /// A word for machines, as the dialect's clients know it (`BackoffLimitExceeded`).
        reason: String,
        /// A sentence.
        message: String,
    },
}

/// What the job's status records: the only memory there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Anything was ever recorded.
    pub seen: bool,
    /// When the job started.
    pub started_at: Option<Timestamp>,
    /// It was seen to run since it was started, or started again after a suspension.
    pub ran: bool,
    /// It was recorded as suspended.
    pub suspended: bool,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Pods that were replaced.
    pub replacements: Replacements,
    /// The Secret with the job's keys.
    pub keys: Option<KeyRecord>,
    /// Who was found to place its pods together, if it takes what is found.
    pub gang: Option<FoundGang>,
    /// Its past. No decision depends on it.
    pub history: History,
}

/// Pods of a job that were replaced, counted before they go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacements {
    /// After a failure, where the pod's restart policy asks for it. The job's limit of retries counts them.
    pub restarts: u32,
    /// Workers that were lost, where the job asks for recovery.
    pub lost_workers: u32,
    /// UID of the last pod of both: it is counted, and may go.
    pub last: Option<String>,
}

/// The Secret with a job's keys, recorded before it is created. Nobody reads a Secret to learn whose it is:
/// the record says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its name, for as long as the job exists.
    pub secret: String,
    /// So many workers have keys in it; none where all pods share one pair.
    pub workers: Option<u32>,
}
