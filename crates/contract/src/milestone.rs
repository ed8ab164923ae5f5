//! How far a job got, and what made a worker late: the words that the operator records in the job's status, and
//! that the command-line tool and other clients read there. When a milestone is reached is for the planner.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// Something that happens once in each start of a job.
    pub enum Milestone {
        /// The job was created.
        Created = "created",
        /// The job was first reconciled, or was resumed.
        Admitted = "admitted",
        /// All workers had a pod.
        PodsCreated = "podsCreated",
        /// All workers had a node.
        Scheduled = "scheduled",
        /// The containers of all workers ran, so all images were there.
        ImagesReady = "imagesReady",
        /// All workers were Ready.
        WorkersReady = "workersReady",
        /// All workers had answered the launcher, which waits for that.
        GatePassed = "gatePassed",
        /// Ranks ran on all hosts that took part.
        RanksStarted = "ranksStarted",
        /// The job ended.
        Ended = "ended",
        /// The pods that the job does not keep were gone.
        CleanedUp = "cleanedUp",
    }
}

vocabulary! {
    /// What a pod does until it is Ready.
    pub enum StartPhase {
        /// It waits for a node.
        Scheduling,
        /// Its images are pulled.
        Pulling,
        /// Its volumes and its network are prepared, and its init containers run.
        Starting,
        /// Its containers run, and it is not Ready.
        Waiting,
    }
}

/// Late workers that a status lists.
pub const LATE_WORKERS_MAX: usize = 3;

/// Attempts that a status lists: the last ones.
pub const ATTEMPTS_MAX: usize = 10;
