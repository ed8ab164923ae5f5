//! Names the situation of a job: a total function of what is observed, in one match. Nothing is
//! remembered between looks except what the API server holds.

use crate::job::HostNames;
use crate::observed::Observed;
use crate::plan::{account, launcher, verdict, workers};

/// The situation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Entered when an outcome is recorded and nothing is left to clean up. Never left.
    Finished,
    /// Entered when the outcome is known, recorded or not; left when it is recorded and the
    /// clean-up policy is carried out.
    Finishing,
    /// Entered when the job is being deleted and a finalizer of somebody holds it; never left. No
    /// pods exist at rest.
    Leaving,
    /// Entered when the user suspends the job; left when resumed. No pods exist at rest.
    Suspended,
    /// Entered when somebody else's object holds a name the job needs, or the API server
    /// refused one of its objects; left when that passes. Nothing is changed meanwhile.
    Blocked,
    /// Entered when Service, ConfigMap, key or account are missing; left when they exist.
    Preparing,
    /// Entered when workers are wanted that do not run yet; left when all run.
    Gathering,
    /// Entered when all workers run and no launcher pod does; left when one does.
    Launching,
    /// Entered when a launcher pod and all workers run; left by an outcome, a suspension, or a
    /// pod that stops running.
    Running,
    /// Entered when the launcher of a job that outlives it has ended; left when its pod is gone.
    Rested,
}

impl Phase {
    /// The whole transition table.
    pub fn of(observed: &Observed) -> Self {
        let outlived = observed.job.outlives_launcher;
        let recorded = observed.recorded.outcome.is_some() && !outlived;
        let ended = verdict::outcome(observed).is_some();
        let known = recorded || (ended && !outlived);
        let clean = recorded && crate::plan::cleanup::is_done(observed);
        let blocked = crate::plan::blocked::by(observed).is_some();
        let named = observed.job.host_names == HostNames::Pods || observed.service.ours().is_some();
        let keyed = !observed.job.needs_key(&observed.site) || observed.key.ours().is_some();
        let prepared =
            named && observed.config.ours().is_some() && keyed && account::exists(observed);
        let gathered = workers::all_running(observed);
        let launched = launcher::running_pods(observed) > 0;

        if observed.job.owner.leaving {
            return Self::Leaving;
        }
        // A block comes after a suspension: a suspended job must lose its pods in any case.
        match (known, clean, observed.job.policy.suspended, blocked) {
            (true, true, _, _) => Self::Finished,
            (true, false, _, _) => Self::Finishing,
            (false, _, true, _) => Self::Suspended,
            (false, _, false, true) => Self::Blocked,
            (false, _, false, false) if !prepared => Self::Preparing,
            (false, _, false, false) if ended => Self::Rested,
            (false, _, false, false) if !gathered => Self::Gathering,
            (false, _, false, false) if !launched => Self::Launching,
            (false, _, false, false) => Self::Running,
        }
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "Finished",
            Self::Finishing => "Finishing",
            Self::Leaving => "Leaving",
            Self::Blocked => "Blocked",
            Self::Suspended => "Suspended",
            Self::Preparing => "Preparing",
            Self::Gathering => "Gathering",
            Self::Launching => "Launching",
            Self::Running => "Running",
            Self::Rested => "Rested",
        }
    }
}
