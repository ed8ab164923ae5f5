//! The lifecycle of a job: what ends it, its limits, and its clean-up.

/// When a job ends, and what stays then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// The job must hold no pods now.
    pub suspended: bool,
    /// Which pods go once the launcher ended.
    pub clean_up: CleanUp,
    /// What ends it.
    pub end: End,
}

/// What ends a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its launcher, or one of these limits.
    WithLauncher(Limits),
    /// Nothing but its deletion: it outlives its launcher. Workers stay, and a launcher that somebody
    /// deletes is created again. No outcome is ever recorded.
    OnDeletion,
}

/// What ends a job beside its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long the job may run.
    pub deadline_secs: Option<u64>,
    /// How long the job may take until its program starts.
    pub startup_secs: Option<u64>,
    /// How often the launcher is tried again.
    pub backoff_limit: Option<u32>,
    /// How long the job itself stays once it is over.
    pub expires_secs: Option<u32>,
    /// A worker that failed ends the job.
    pub failed_worker_is_fatal: bool,
    /// A launcher that somebody deletes ends the job; otherwise it is created again.
    pub deleted_launcher_is_fatal: bool,
}

impl Limits {
    /// No limit at all.
    pub const NONE: Self = Self {
        deadline_secs: None,
        startup_secs: None,
        backoff_limit: None,
        expires_secs: None,
        failed_worker_is_fatal: false,
        deleted_launcher_is_fatal: false,
    };
}

/// Which pods go once the launcher ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanUp {
    /// None: they stay as they are.
    Nothing,
    /// Those that still hold resources.
    Running,
    /// All of them.
    All,
    /// None is deleted that has logs: workers are notified and end by themselves.
    Notify,
}
