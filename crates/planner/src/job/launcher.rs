//! The launcher of a job: a batch Job or a pod, with the settings that each needs.

use super::role::Role;

/// What runs mpirun.
#[derive(Clone, Debug, PartialEq)]
pub struct Launcher {
    /// What its pod looks like.
    pub role: Role,
    /// What it is in the cluster.
    pub kind: LauncherKind,
    /// When it may start.
    pub start: LauncherStart,
    /// It takes ranks too, and is first in the host list.
    pub host: Option<LauncherHost>,
}

/// What the launcher is in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherKind {
    /// A batch Job: its controller makes the pods, tries again, and enforces the deadline.
    Job {
        /// What becomes of a container that failed.
        restart: JobRestart,
        /// How long the Job stays once it ended.
        ttl_secs: Option<u32>,
    },
    /// A pod that the operator creates.
    Pod {
        /// What becomes of a container that ended.
        restart: RestartPolicy,
        /// The clean-up policy covers it, and the pod group, not only the workers.
        is_cleaned_up: bool,
    },
}

impl LauncherKind {
    /// The pod's restart policy, in the spelling of the pod API.
    pub fn restart(self) -> &'static str {
        match self {
            Self::Job { restart, .. } => restart.as_str(),
            Self::Pod { restart, .. } => restart.as_str(),
        }
    }

    /// It is a pod that the operator creates.
    pub fn is_pod(self) -> bool {
        matches!(self, Self::Pod { .. })
    }
}

/// Restart policies that the pods of a batch Job may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobRestart {
    /// The Job makes another pod after a failure.
    Never,
    /// A container that failed is started again in its pod.
    OnFailure,
}

impl JobRestart {
    fn as_str(self) -> &'static str {
        match self {
            Self::Never => "Never",
            Self::OnFailure => "OnFailure",
        }
    }
}

/// Restart policies that pods of ours may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// A container that ended stays ended.
    Never,
    /// A container that failed is started again in its pod.
    OnFailure,
    /// A container that ended is started again in its pod.
    Always,
    /// A pod that failed with an exit code below 128 stays failed; one that was ended from outside
    /// is replaced.
    ExitCode,
}

impl RestartPolicy {
    /// The spelling of the pod API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never | Self::ExitCode => "Never",
            Self::OnFailure => "OnFailure",
            Self::Always => "Always",
        }
    }
}

/// When the launcher may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherStart {
    /// Together with the workers.
    AtOnce,
    /// Not before every worker is Ready.
    WhenWorkersReady,
}

/// How a launcher that takes ranks is labelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherHost {
    /// Index labels count it: it is 0, the first worker 1.
    Indexed,
    /// Index labels count workers only.
    Unindexed,
}
