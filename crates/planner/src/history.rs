//! What a job's status tells of the job's past, so that it can still be told when its pods, events and logs are
//! gone. No decision depends on it. Its size does not depend on the number of workers.

use std::collections::BTreeMap;

use contract::Reason;
use contract::milestone::{Milestone, StartPhase};
use jiff::{SignedDuration, Timestamp};

/// Clocks of operators and nodes differ by less. What is said to have happened later than this after now, or
/// earlier than this before the start, is not believed: anybody who may write pods may write their status.
pub(crate) const SKEW_MAX: SignedDuration = SignedDuration::from_hours(1);

/// The past of a job since it was started, or started again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When it got how far, as far as anything proved it.
    pub milestones: BTreeMap<Milestone, Timestamp>,
    /// Workers that were ready notably later than most, the latest first.
    pub slowest: Vec<LateWorker>,
    /// How often its program was started: the last times, where it may be started more than once.
    pub attempts: Vec<LauncherAttempt>,
}

/// A worker that was late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateWorker {
    /// Name of its pod.
    pub worker: String,
    /// Its node, or empty.
    pub node: String,
    /// What took longer than in the other workers.
    pub phase: StartPhase,
    /// How long that took.
    pub seconds: u32,
}

/// One run of the launcher's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LauncherAttempt {
    /// Which one, from 1.
    pub number: u32,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it ended; none while it runs, and none of one that succeeded.
    pub reason: Option<Reason>,
}
