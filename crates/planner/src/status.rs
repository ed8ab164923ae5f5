//! What a job's status reports, in no dialect. Conditions of a dialect are projections of this; they
//! are never inputs to a decision.

use contract::Reason;
use jiff::Timestamp;

use crate::history::History;
use crate::observed::PodPhase;
use crate::phase::Phase;
use crate::recorded::{KeyRecord, Outcome, Replacements};
use crate::site::FoundGang;

/// What is true of the job now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The situation.
    pub phase: Phase,
    /// Why, in one word; none when all is as it should be.
    pub reason: Option<Reason>,
    /// The same in one sentence.
    pub message: String,
    /// How mpirun reaches the workers.
    pub transport: &'static str,
    /// The user holds the job.
    pub suspended: bool,
    /// A launcher pod and every worker run.
    pub running: bool,
    /// When the job started, or started again after a suspension.
    pub started_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The launcher's pods, once its Job exists.
    pub launcher: Option<Count>,
    /// The workers' pods; all zero once the launcher ended or while suspended.
    pub workers: Count,
    /// Workers that are Ready.
    pub ready: u32,
    /// Workers that were asked for.
    pub wanted: u32,
    /// Pods that were, or are about to be, replaced.
    pub replacements: Replacements,
    /// The Secret with the job's keys, which must be recorded before it is created.
    pub keys: Option<KeyRecord>,
    /// Who places its pods together, if it takes what is found.
    pub gang: Option<FoundGang>,
    /// Its past since it was started.
    pub history: History,
    /// Every pod, launcher first; none unless the job's clients read of them.
    pub pods: Vec<PodNote>,
}

/// One pod in the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNote {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// How often its containers were started again.
    pub restarts: u32,
    /// Exit code of its first container that failed.
    pub exit_code: Option<i32>,
}

/// Pods by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Running.
    pub active: u32,
    /// Ended well.
    pub succeeded: u32,
    /// Ended badly.
    pub failed: u32,
}
