//! What can go wrong, and where. A fault strikes at the n-th write of a replica, so that the same fault
//! strikes at the same place however long things take, and a list of faults can be made shorter.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, bail};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Whose write.
    pub replica: usize,
    /// Which of its writes, from 0. Writes count on after a restart.
    pub write: u32,
    /// What happens.
    pub kind: FaultKind,
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal,)*) => {
        /// What can go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultKind {
            $($(#[doc = $doc])* $name,)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    /// F1: the replica dies; the API server never sees the write.
    CrashBefore = "crash-before",
    /// F2: the API server carries the write out, and the replica dies.
    CrashAfter = "crash-after",
    /// F3: the API server carries the write out, and the connection breaks.
    AnswerLost = "answer-lost",
    /// F3: the API server carries the write out, and never answers.
    Unanswered = "unanswered",
    /// The API server never sees the write, and the connection breaks.
    RequestLost = "request-lost",
    /// F4: the API server answers 409 and does nothing.
    Conflict = "conflict",
    /// F5: too many requests.
    TooMany = "too-many",
    /// F5: an internal error, and nothing was done.
    Internal = "internal",
    /// F5: an internal error, although the write was carried out.
    InternalAfter = "internal-after",
    /// F5: a timeout, although the write was carried out.
    TimeoutAfter = "timeout-after",
    /// F6: pods are seen late.
    PodsLag = "pods-lag",
    /// F6: Jobs are seen late.
    JobsLag = "jobs-lag",
    /// F6: ConfigMaps and Services are seen late.
    ConfigLag = "config-lag",
    /// F6: users' jobs are seen late.
    OwnLag = "own-lag",
    /// F7: the next events of pods come twice.
    PodsDoubled = "pods-doubled",
    /// F7: all events come twice for a while.
    AllDoubled = "all-doubled",
    /// F7: the watch of pods goes back in time, and comes forward again.
    PodsRewound = "pods-rewound",
    /// F8: all watches of the replica break.
    WatchesCut = "watches-cut",
    /// F8: the watches of pods break, and stay broken for a while.
    PodsCut = "pods-cut",
    /// F5: the API server answers no read of the replica for a while but with 503.
    ReadsFail = "reads-fail",
    /// F19: the API server does not know the jobs' own API for a while, as after its start.
    ApiMissing = "api-missing",
    /// F8: the API server forgets its history: watches end with 410.
    Compacted = "compacted",
    /// F12: somebody deletes a pod of a job.
    PodDeleted = "pod-deleted",
    /// F12: the kernel kills the program of a pod, for want of memory.
    PodKilled = "pod-killed",
    /// F13: the node does not answer for a minute: nothing starts, stops or is heard of meanwhile.
    NodeSilent = "node-silent",
    /// F14: somebody deletes a ConfigMap, a Service or a Secret of a job.
    ChildDeleted = "child-deleted",
    /// F14: somebody deletes the launcher's Job.
    LauncherDeleted = "launcher-deleted",
    /// F15: somebody takes the name of the object that the replica is about to create.
    Squatter = "squatter",
    /// F15: somebody gives a pod of their own the labels of a worker.
    LookAlike = "look-alike",
    /// F16: pods are refused for a while, as by a quota.
    Quota = "quota",
    /// F11: the replica's clock jumps ahead by ten minutes.
    ClockAhead = "clock-ahead",
    /// F11: the replica's clock jumps back by ten minutes.
    ClockBehind = "clock-behind",
    /// F10: the replica sleeps for a minute, and goes on with what it believed before.
    Paused = "paused",
    /// F13: a worker has to leave its node, for want of memory or disk.
    WorkerEvicted = "worker-evicted",
    /// F13: the node of a worker is gone for 150 seconds: its pod is deleted, and nobody confirms its end.
    NodeLost = "node-lost",
}

impl FaultKind {
    /// Of the operator and its connection: nothing that happens to jobs, pods or clocks. A job must end as
    /// it would without them.
    pub fn is_transparent(self) -> bool {
        self <= Self::Compacted || self == Self::Paused
    }

    /// What the replica believes may be old.
    pub fn makes_views_stale(self) -> bool {
        (Self::PodsLag..=Self::Compacted).contains(&self) || self == Self::Paused
    }

    /// The replica is started again.
    pub fn is_crash(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }

    /// The replica's clock is wrong.
    pub fn is_of_clock(self) -> bool {
        matches!(self, Self::ClockAhead | Self::ClockBehind)
    }

    /// The faults that the exhaustive run tries at every write: F1 to F8.
    pub fn exhaustive() -> Vec<Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|kind| *kind <= Self::Compacted).collect()
    }

    /// The faults of which it tries every pair: F1 to F6.
    pub fn paired() -> Vec<Self> {
        let all = Self::ALL.iter().copied();
        let is_paired = |kind: &Self| *kind <= Self::OwnLag || *kind == Self::ReadsFail;
        all.filter(is_paired).collect()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}:{}",
            self.replica,
            self.write,
            self.kind.as_str()
        )
    }
}

impl FromStr for Fault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let [replica, write, name] = text.split(':').collect::<Vec<_>>()[..] else {
            bail!("{text} is not REPLICA:WRITE:FAULT");
        };
        let mut kinds = FaultKind::ALL.iter().copied();
        let kind = kinds.find(|kind| kind.as_str() == name);
        Ok(Self {
            replica: replica.parse().context("REPLICA is a number")?,
            write: write.parse().context("WRITE is a number")?,
            kind: kind.with_context(|| format!("there is no fault {name}"))?,
        })
    }
}
