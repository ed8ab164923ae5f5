//! The phases of a job, each with when it is entered and left. Which one a job is in is decided in
//! `plan/situation.rs`; nothing is remembered between reconciles except what the API server holds.

/// The phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Entered when an outcome is recorded and nothing is left to clean up. Never left.
    Finished,
    /// Entered when the outcome is known, recorded or not; left when it is recorded and the
    /// clean-up policy is carried out.
    Finishing,
    /// Entered when the job is being deleted and somebody's finalizer holds it; never left. No
    /// pods exist at rest.
    Deleting,
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
    LauncherExited,
}

impl Phase {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "Finished",
            Self::Finishing => "Finishing",
            Self::Deleting => "Deleting",
            Self::Blocked => "Blocked",
            Self::Suspended => "Suspended",
            Self::Preparing => "Preparing",
            Self::Gathering => "Gathering",
            Self::Launching => "Launching",
            Self::Running => "Running",
            Self::LauncherExited => "LauncherExited",
        }
    }
}
