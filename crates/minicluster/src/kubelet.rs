//! The contract between the cluster and whoever runs its containers. The cluster decides *what*
//! must run and when it must stop ([`Order`]); a runner (real processes, or a seeded fate) does it
//! and says what became of it ([`PodReport`]). Neither knows anything else of the other.
//!
//! The life of a pod, as the runner sees it:
//! `Place` → (runner: `Placed`) → for each init container in order `Start` → `Started` → `Exited`,
//! then all main containers `Start` → `Started` → `Ready`… → `Exited`, and `Release` at the end.

use std::sync::Arc;

use serde_json::Value;

pub(crate) mod life;
pub(crate) mod machine;
pub(crate) mod status;

pub use crate::pod_ref::PodRef;

/// What the runner must do. Orders about one pod come in the order in which they must be obeyed.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// The pod is bound to this node: give it an address and make its volumes. Answer with
    /// [`PodReport::Placed`], or with [`PodReport::CannotStart`] when its volumes cannot be made.
    /// Nothing of it is started before that answer.
    Place {
        /// The pod.
        pod: PodRef,
        /// The whole Pod as stored now.
        object: Arc<Value>,
    },
    /// Start a container. Answer with `Started` and later `Exited`, or with `CannotStart`. A
    /// sidecar (an init container with `restartPolicy: Always`) is started with `init: true` too;
    /// the next container waits for its `Started` (and its startup probe's first `Ready`), not for
    /// its exit.
    Start {
        /// The pod.
        pod: PodRef,
        /// `name` of the container.
        container: String,
        /// It is one of `spec.initContainers`.
        init: bool,
        /// 0 for the first start, then `restartCount`.
        attempt: u32,
        /// The whole Pod as stored now; `status.podIP` is set.
        object: Arc<Value>,
    },
    /// End a container: TERM, after the grace KILL. Answered by the container's `Exited`. May come
    /// again with a shorter grace; may come for a container that has just ended (ignore it then).
    Stop {
        /// The pod.
        pod: PodRef,
        /// `name` of the container.
        container: String,
        /// Seconds between TERM and KILL; 0 kills at once.
        grace_secs: u64,
    },
    /// The stored Pod changed while it is on this node (annotations and labels may be files in its
    /// volumes). No answer.
    Refresh {
        /// The pod.
        pod: PodRef,
        /// The whole Pod as stored now.
        object: Arc<Value>,
    },
    /// No container of the pod runs or will run again, and the pod is deleted: free what it
    /// holds. Logs may go too. No answer. A pod that is over but not deleted keeps its logs and
    /// is not released.
    Release {
        /// The pod.
        pod: PodRef,
    },
}

/// What the runner says. Reports about a pod or container that is not known any more are ignored,
/// so the runner need not remember what it was told to forget.
#[derive(Clone, Debug, PartialEq)]
pub enum PodReport {
    /// The pod has an address and its volumes. Answer to [`Order::Place`].
    Placed {
        /// The pod.
        pod: PodRef,
        /// `status.podIP`.
        ip: String,
    },
    /// The container's process runs.
    Started {
        /// The pod.
        pod: PodRef,
        /// `name` of the container.
        container: String,
    },
    /// The container's process ended, and with it every process of the container.
    Exited {
        /// The pod.
        pod: PodRef,
        /// `name` of the container.
        container: String,
        /// As a shell would say it: 128 + signal when a signal ended it.
        code: i32,
        /// The signal that ended it.
        signal: Option<i32>,
        /// The termination message, or the end of the log where the policy asks for it.
        message: String,
        /// Ended by the kernel for want of memory.
        oom: bool,
    },
    /// What the container's readiness probe says now. A container without one is ready once
    /// started, and the runner need not say so. For a container with a startup probe the first
    /// report means that this probe succeeded.
    Ready {
        /// The pod.
        pod: PodRef,
        /// `name` of the container.
        container: String,
        /// Ready or not.
        ready: bool,
    },
    /// The container was not started at all: no such program, a ConfigMap is missing…
    CannotStart {
        /// The pod.
        pod: PodRef,
        /// `name` of the container; empty when the pod could not be placed.
        container: String,
        /// As the kubelet spells it: `CreateContainerConfigError`, `RunContainerError`…
        reason: String,
        /// For people.
        message: String,
        /// Another try may succeed without a change of the pod: the cluster orders it again
        /// after a while. Otherwise the container counts as exited with code 128.
        retry: bool,
    },
}

impl Order {
    /// The pod it is about.
    pub fn pod(&self) -> &PodRef {
        match self {
            Self::Place { pod, .. }
            | Self::Start { pod, .. }
            | Self::Stop { pod, .. }
            | Self::Refresh { pod, .. }
            | Self::Release { pod } => pod,
        }
    }
}

impl PodReport {
    /// The pod it is about.
    pub fn pod(&self) -> &PodRef {
        match self {
            Self::Placed { pod, .. }
            | Self::Started { pod, .. }
            | Self::Exited { pod, .. }
            | Self::Ready { pod, .. }
            | Self::CannotStart { pod, .. } => pod,
        }
    }
}
