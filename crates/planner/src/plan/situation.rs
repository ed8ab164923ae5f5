//! Derives, once for each plan, what every later part needs to know: the outcome, what blocks the job,
//! what is left to clean up, and from these the phase. Decides no action.

use super::blocked::{self, Block};
use super::{account, cleanup, identity, network_policy, pods, verdict};
use crate::action::Action;
use crate::job::HostNames;
use crate::observed::{Observed, PodPhase};
use crate::phase::Phase;
use crate::reach::Reach;
use crate::recorded::{Outcome, Verdict};
use crate::text::printable;

/// What is known of a job beyond what was observed.
pub(super) struct Situation<'a> {
    pub(super) observed: &'a Observed,
    pub(super) phase: Phase,
    /// How it ended, recorded or not.
    pub(super) outcome: Option<Outcome>,
    /// How mpirun reaches the workers; none while the agent's image is missing, which blocks the job.
    pub(super) reach: Option<Reach<'a>>,
    /// What stands in its way from outside.
    pub(super) block: Option<Block<'a>>,
    /// What can be done now to clean up. Nothing before the outcome is recorded: what exists is the
    /// evidence.
    pub(super) cleanup: Vec<Action>,
    /// The outcome is recorded and nothing is left to clean up, now or in a moment.
    pub(super) is_clean: bool,
    /// Workers that run.
    pub(super) running: u32,
    /// Workers that are Ready.
    pub(super) ready: u32,
    /// Workers that were asked for.
    pub(super) wanted: u32,
}

impl<'a> Situation<'a> {
    /// All of it.
    pub(super) fn of(observed: &'a Observed) -> Self {
        let is_recorded = observed.recorded.outcome.is_some() && !observed.job.outlives_launcher();
        let mut situation = Self {
            observed,
            phase: Phase::Preparing,
            outcome: verdict::outcome(observed).map(|outcome| shown(observed, outcome)),
            reach: Reach::of(observed),
            block: blocked::by(observed),
            cleanup: match is_recorded {
                true => cleanup::actions(observed),
                false => Vec::new(),
            },
            is_clean: false,
            running: pods::workers_in(observed, PodPhase::Running),
            ready: pods::ready_workers(observed),
            wanted: observed.job.worker_count(),
        };
        situation.is_clean =
            is_recorded && situation.cleanup.is_empty() && !cleanup::launcher_is_ending(observed);
        situation.phase = situation.phase();
        situation
    }

    /// The whole transition table. A block comes after a suspension: a suspended job must lose its
    /// pods in any case.
    fn phase(&self) -> Phase {
        let (observed, job) = (self.observed, &self.observed.job);
        let has_ended = self.outcome.is_some();
        if job.owner.deleting {
            Phase::Deleting
        } else if self.is_clean {
            Phase::Finished
        } else if has_ended && !job.outlives_launcher() {
            Phase::Finishing
        } else if job.lifecycle.suspended {
            Phase::Suspended
        } else if self.block.is_some() {
            Phase::Blocked
        } else if !is_prepared(observed) {
            Phase::Preparing
        } else if has_ended {
            Phase::LauncherExited
        } else if self.running < self.wanted {
            Phase::Gathering
        } else if pods::running_launchers(observed) == 0 {
            Phase::Launching
        } else {
            Phase::Running
        }
    }
}

/// The outcome in characters that may be shown. What was recorded stands as it is.
fn shown(observed: &Observed, mut outcome: Outcome) -> Outcome {
    if let Verdict::Failed { reason, message } = &mut outcome.verdict
        && observed.recorded.outcome.is_none()
    {
        for text in [reason, message] {
            *text = printable(text).into_owned();
        }
    }
    outcome
}

/// Every object that pods need exists.
fn is_prepared(observed: &Observed) -> bool {
    let job = &observed.job;
    let has_service = job.host_names() == HostNames::Pods || observed.service.ours().is_some();
    let has_key = identity::has_keys(observed);
    let has_config = observed.config.ours().is_some();
    has_service
        && has_key
        && has_config
        && account::exists(observed)
        && network_policy::exists(observed)
}
