//! One vocabulary of reasons: the same word in status, event, metric and message. Decides how
//! they are spelled; when one applies is for the policies.

/// Why a job waits, or why it ended as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The user holds it.
    Suspended,
    /// Its pods are on their way.
    Starting,
    /// Some workers are not there yet.
    WaitingForWorkers,
    /// A pod's image is being fetched or cannot be.
    PullingImage,
    /// No node fits a pod now.
    Unschedulable,
    /// A quota is full.
    QuotaExceeded,
    /// The namespace's Pod Security level refuses a pod.
    PodSecurityDenied,
    /// Somebody else's object holds a name that the job needs.
    NameTaken,
    /// The job, or a pod made from it, is not valid.
    Invalid,
    /// The API server refused an object for another reason.
    Refused,
    /// The launcher's program failed.
    CommandFailed,
    /// The launcher's program is not in its image.
    CommandNotFound,
    /// A container went over its memory limit.
    OutOfMemory,
    /// A worker was evicted from its node.
    Evicted,
    /// The job ran, or waited, longer than it may.
    DeadlineExceeded,
    /// A pod waits for an image or a setting that is not there.
    WorkerCannotStart,
    /// The same of the launcher.
    LauncherCannotStart,
    /// A worker was lost, or ended, while it was needed.
    WorkerLost,
    /// A worker could not be called.
    Unreachable,
    /// The program ended well, on fewer hosts than were asked for.
    RanksNotDistributed,
    /// A rank was ended by a signal.
    RankKilled,
    /// The pods of the job were not ready for its program in time, or could not be made so.
    InitializationFailed,
    /// Somebody deleted the launcher while its program ran.
    LauncherLost,
}

impl Reason {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "Suspended",
            Self::Starting => "Starting",
            Self::WaitingForWorkers => "WaitingForWorkers",
            Self::PullingImage => "PullingImage",
            Self::Unschedulable => "Unschedulable",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::PodSecurityDenied => "PodSecurityDenied",
            Self::NameTaken => "NameTaken",
            Self::Invalid => "Invalid",
            Self::Refused => "Refused",
            Self::CommandFailed => "CommandFailed",
            Self::CommandNotFound => "CommandNotFound",
            Self::OutOfMemory => "OutOfMemory",
            Self::Evicted => "Evicted",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::WorkerCannotStart => "WorkerCannotStart",
            Self::LauncherCannotStart => "LauncherCannotStart",
            Self::WorkerLost => "WorkerLost",
            Self::Unreachable => "Unreachable",
            Self::RanksNotDistributed => "RanksNotDistributed",
            Self::RankKilled => "RankKilled",
            Self::InitializationFailed => "InitializationFailed",
            Self::LauncherLost => "LauncherLost",
        }
    }
}
