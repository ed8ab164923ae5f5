//! Why a job waits, or why it ended as it did: one vocabulary for status, events, metrics, messages
//! and exit codes. Decides how a reason is spelled and everything that can be said about it without
//! knowing the job; when a reason applies is for the planner's policies.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// Why a job waits, or why it ended as it did.
    pub enum Reason {
        /// The user or a queue has suspended the job.
        Suspended,
        /// The pods of the job are being created and started.
        Starting,
        /// The job's queue has not admitted its pods.
        Queued,
        /// Some workers are not ready.
        WaitingForWorkers,
        /// A pod's image could not be pulled so far.
        PullingImage,
        /// No node fits a pod now.
        Unschedulable,
        /// A resource quota is used up.
        QuotaExceeded,
        /// The namespace's Pod Security level refuses a pod.
        PodSecurityDenied,
        /// The cluster does not serve the API of the job's gang scheduler.
        WaitingForGang,
        /// An object that is not the job's has a name that the job needs.
        NameTaken,
        /// The job, or a pod made from it, is not valid.
        Invalid,
        /// The operator refuses jobs in this namespace, because it is its own.
        NamespaceNotAllowed,
        /// The job is larger than Kubernetes or the operator can handle.
        TooLarge,
        /// The API server refused an object for another reason.
        Refused,
        /// The namespace has more objects with our labels than the operator keeps.
        NamespaceOverBudget,
        /// The launcher's program failed.
        CommandFailed,
        /// The launcher's program is not in its image.
        CommandNotFound,
        /// A container exceeded its memory limit.
        OutOfMemory,
        /// A worker was evicted from its node.
        Evicted,
        /// The job ran or waited longer than its deadline allows.
        DeadlineExceeded,
        /// A worker waits for an image or a setting that does not exist.
        WorkerCannotStart,
        /// The launcher waits for an image or a setting that does not exist.
        LauncherCannotStart,
        /// A worker was lost, or ended, while it was needed.
        WorkerLost,
        /// A worker runs but does not answer.
        Unreachable,
        /// The program succeeded on fewer hosts than the job asked for.
        RanksNotDistributed,
        /// A signal ended a rank.
        RankKilled,
        /// The pods of the job were not ready for its program in time, or could not be made ready.
        InitializationFailed,
        /// Somebody deleted the launcher while its program ran.
        LauncherLost,
    }
}

/// What a reason means for the progress of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The job goes on when something has happened.
    Waiting,
    /// The API server, or muster itself, does not accept an object of the job.
    Blocked,
    /// The job is over.
    Ended,
}

vocabulary! {
    /// Who can do something about it.
    pub enum Fault {
        /// The user: the program, its image, or what the job asks for.
        User,
        /// Whoever runs the cluster: nodes, capacity, network and what is installed.
        Cluster,
        /// Whoever sets the rules of the namespace: quotas, policies, admission.
        Platform,
    }
}

/// Where to look for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The launcher's log.
    LauncherLog,
    /// The workers' logs.
    WorkerLog,
    /// The job as it was written.
    Spec,
    /// The job's status and events.
    Status,
}

impl Reason {
    /// What it means for the progress of the job.
    pub fn stage(self) -> Stage {
        self.class().0
    }

    /// Who can do something about it; nobody has to, while the job only takes its time.
    pub fn fault(self) -> Option<Fault> {
        self.class().1
    }

    /// A job that waits goes on by itself; one that ended may succeed unchanged when it is submitted
    /// again.
    pub fn is_retryable(self) -> bool {
        self.class().2
    }

    /// Where to look for more.
    pub fn evidence(self) -> Evidence {
        self.class().3
    }

    fn class(self) -> (Stage, Option<Fault>, bool, Evidence) {
        use Evidence::{LauncherLog, Spec, Status, WorkerLog};
        use Stage::{Blocked, Ended, Waiting};
        const USER: Option<Fault> = Some(Fault::User);
        const CLUSTER: Option<Fault> = Some(Fault::Cluster);
        const PLATFORM: Option<Fault> = Some(Fault::Platform);
        match self {
            Self::Suspended => (Waiting, USER, false, Status),
            Self::Starting => (Waiting, None, true, Status),
            Self::Queued => (Waiting, PLATFORM, true, Status),
            Self::WaitingForWorkers => (Waiting, None, true, Status),
            Self::PullingImage => (Waiting, USER, true, Status),
            Self::Unschedulable => (Waiting, CLUSTER, true, Status),
            Self::QuotaExceeded => (Blocked, PLATFORM, true, Status),
            Self::PodSecurityDenied => (Blocked, USER, false, Status),
            Self::WaitingForGang => (Blocked, CLUSTER, true, Status),
            Self::NameTaken => (Blocked, USER, false, Status),
            Self::Invalid => (Blocked, USER, false, Spec),
            Self::NamespaceNotAllowed => (Blocked, USER, false, Status),
            Self::TooLarge => (Blocked, USER, false, Spec),
            Self::Refused => (Blocked, PLATFORM, true, Status),
            Self::NamespaceOverBudget => (Blocked, PLATFORM, true, Status),
            Self::CommandFailed => (Ended, USER, false, LauncherLog),
            Self::CommandNotFound => (Ended, USER, false, LauncherLog),
            Self::OutOfMemory => (Ended, USER, false, LauncherLog),
            Self::Evicted => (Ended, CLUSTER, true, Status),
            Self::DeadlineExceeded => (Ended, USER, false, Status),
            Self::WorkerCannotStart => (Ended, USER, false, Status),
            Self::LauncherCannotStart => (Ended, USER, false, Status),
            Self::WorkerLost => (Ended, CLUSTER, true, WorkerLog),
            Self::Unreachable => (Ended, CLUSTER, true, WorkerLog),
            Self::RanksNotDistributed => (Ended, USER, false, LauncherLog),
            Self::RankKilled => (Ended, USER, false, LauncherLog),
            Self::InitializationFailed => (Ended, USER, false, WorkerLog),
            Self::LauncherLost => (Ended, USER, true, Status),
        }
    }

    /// What people can do about it, first of all those who [can act](Self::fault).
    pub fn advice(self) -> &'static str {
        match self {
            Self::Suspended => "resume the job, unless it waits for its turn in a queue",
            Self::Starting | Self::WaitingForWorkers => WAIT,
            Self::Queued => {
                "wait for the job's turn; kubectl describe workloads.kueue.x-k8s.io has Kueue's reason"
            }
            Self::PullingImage => {
                "check the image's name, the pull secret, and whether the registry answers"
            }
            Self::Unschedulable => "free room on the nodes or add some; the job can ask for less",
            Self::QuotaExceeded => "raise the quota or free some of it; the job can ask for less",
            Self::PodSecurityDenied => {
                "change the pod template to what the namespace's Pod Security level allows"
            }
            Self::WaitingForGang => {
                "install the gang scheduler or turn its API on; the job can set spec.muster.gang: None"
            }
            Self::NameTaken => "rename the job, or delete the object that has the name",
            Self::Invalid => "correct what the message names",
            Self::NamespaceNotAllowed => {
                "create the job in another namespace; the operator's \
                 --allow-jobs-in-operator-namespace lets everybody who may create jobs there act as \
                 the operator"
            }
            Self::TooLarge => "ask for fewer workers, or for what the message names",
            Self::Refused => "change what the API server's answer names: the rule, or the job",
            Self::NamespaceOverBudget => {
                "delete the objects with muster's labels that belong to no job of the namespace"
            }
            Self::CommandFailed | Self::RankKilled => {
                "read what the program said; the exit code is its own"
            }
            Self::CommandNotFound => {
                "install the program, or write its full path in the launcher's command"
            }
            Self::OutOfMemory => "raise resources.limits.memory, or let each rank use less",
            Self::Evicted => "submit again; if it happens again, look at why the node evicts pods",
            Self::WorkerLost | Self::Unreachable => {
                "submit again; if it happens again, look at that worker's log and node"
            }
            Self::DeadlineExceeded => "raise the job's deadline",
            Self::WorkerCannotStart | Self::LauncherCannotStart => {
                "give the pod what it waits for, and submit again"
            }
            Self::RanksNotDistributed => {
                "remove --hostfile and --host from the command: muster sets the list of hosts"
            }
            Self::InitializationFailed => {
                "look at the workers' logs, both containers, and at workers that are not Ready; raise \
                 the time for initialization if they were only late"
            }
            Self::LauncherLost => "submit again",
        }
    }
}

/// The advice for a job that only takes its time.
const WAIT: &str = "wait for the pods";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_and_has_advice() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_text(reason.as_str()), Some(reason));
            let advice = reason.advice();
            assert!(advice.len() > 10 && !advice.ends_with('.'), "{advice}");
        }
        assert_eq!(Reason::from_text("MPIJobFailed"), None);
        assert_eq!(Reason::from_text(""), None);
    }

    /// Clients match these words in status and events.
    #[test]
    fn the_words_are_the_ones_that_clients_know() {
        let words = Reason::ALL.map(Reason::as_str);
        assert_eq!(
            words.join(" "),
            "Suspended Starting Queued WaitingForWorkers PullingImage Unschedulable QuotaExceeded \
             PodSecurityDenied WaitingForGang NameTaken Invalid NamespaceNotAllowed TooLarge Refused \
             NamespaceOverBudget CommandFailed CommandNotFound OutOfMemory Evicted DeadlineExceeded WorkerCannotStart \
             LauncherCannotStart WorkerLost Unreachable RanksNotDistributed RankKilled \
             InitializationFailed LauncherLost"
        );
    }

    /// Whoever reads that nobody has to act must not read what to do, and the other way round.
    #[test]
    fn nobody_has_to_act_exactly_where_the_advice_is_to_wait() {
        for reason in Reason::ALL {
            let (word, waits) = (reason.as_str(), reason.advice() == WAIT);
            assert_eq!(reason.fault().is_none(), waits, "{word}");
            let by_itself = reason.stage() == Stage::Waiting && reason.is_retryable();
            assert!(!waits || by_itself, "{word}");
        }
    }

    /// The advice speaks to those who are named, first of all.
    #[test]
    fn who_can_act_is_who_can_follow_the_advice() {
        for (reason, fault, begins) in [
            (Reason::Suspended, Fault::User, "resume the job"),
            (Reason::PullingImage, Fault::User, "check the image's name"),
            (Reason::PodSecurityDenied, Fault::User, "change the pod"),
            (Reason::NamespaceNotAllowed, Fault::User, "create the job"),
            (Reason::InitializationFailed, Fault::User, "look at the"),
            (Reason::WaitingForGang, Fault::Cluster, "install the gang"),
            (Reason::QuotaExceeded, Fault::Platform, "raise the quota"),
            (Reason::Refused, Fault::Platform, "change what the API"),
        ] {
            let (word, advice) = (reason.as_str(), reason.advice());
            assert_eq!(reason.fault(), Some(fault), "{word}");
            assert!(advice.starts_with(begins), "{word}: {advice}");
        }
    }
}
