//! The decision: what to do about a job, what to say of it, when to look again, and why.
//!
//! A plan is so specific that carrying it out leaves no choice: every object is rendered, every
//! delete and patch names a UID. Each policy lives in a file of its own below this one.

use jiff::Timestamp;
use serde_json::Value;

use crate::observed::{GangScheduler, Observed};
use crate::phase::Phase;
use crate::status::Status;

pub(crate) mod account;
pub(crate) mod blocked;
mod bootstrap;
pub(crate) mod cleanup;
pub(crate) mod deadline;
pub(crate) mod expiry;
pub(crate) mod gang;
pub(crate) mod hosts;
pub(crate) mod identity;
pub(crate) mod launcher;
mod launcher_pod;
pub(crate) mod retry;
mod say;
pub(crate) mod stuck;
pub(crate) mod testimony;
pub(crate) mod verdict;
mod worker_set;
pub(crate) mod workers;

/// What to do, what to say, when to look again, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Actions of one step may run at the same time; a step starts when the one before it is
    /// done. Steps are never empty.
    pub steps: Vec<Vec<Action>>,
    /// What is true of the job now.
    pub status: Status,
    /// When to look again even if nothing happens.
    pub wake: Option<Timestamp>,
    /// Why this plan.
    pub because: Because,
}

/// One change to bring about, as one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create this object.
    Create(Object),
    /// Create this Secret with fresh keys in it; the planner has no randomness to make any.
    CreateKey {
        /// The Secret, still empty.
        secret: Object,
        /// What goes into it.
        keys: Keys,
    },
    /// Merge this into the object, if it still is the one that was seen.
    Patch {
        /// What it is.
        kind: Kind,
        /// Its name.
        name: String,
        /// The patch applies to this very object only.
        uid: String,
        /// `status`, when that is what changes.
        subresource: Option<&'static str>,
        /// JSON merge patch.
        merge: Value,
    },
    /// Delete this very object.
    Delete {
        /// What it is.
        kind: Kind,
        /// Its name.
        name: String,
        /// The delete applies to this very object only.
        uid: String,
    },
    /// Delete the job's workers in one request.
    DeleteWorkers {
        /// Label selector; names the job's UID.
        labels: String,
        /// Field selector, or empty for all.
        fields: String,
        /// The pods that are meant, all of them ours.
        names: Vec<String>,
    },
    /// Delete the job itself: it is over, and its time is up.
    DeleteJob {
        /// The delete applies to this very job only.
        uid: String,
    },
}

/// What a key Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// One SSH key pair, for all pods.
    SshPair,
    /// An authority of the job's own, certificates and keys that it issued to the launcher and to
    /// the workers, and nothing that could issue more.
    Certificates {
        /// UID of the job, which the certificates name.
        job: String,
    },
}

/// An object to create, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// All of it, as JSON.
    pub body: Value,
}

/// The kinds of children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// core/v1
    Service,
    /// core/v1
    ConfigMap,
    /// core/v1
    Secret,
    /// core/v1
    Pod,
    /// batch/v1
    Job,
    /// apps/v1
    StatefulSet,
    /// core/v1
    ServiceAccount,
    /// rbac.authorization.k8s.io/v1
    Role,
    /// rbac.authorization.k8s.io/v1
    RoleBinding,
    /// scheduling.volcano.sh/v1beta1
    VolcanoPodGroup,
    /// scheduling.x-k8s.io/v1alpha1
    SchedulerPluginsPodGroup,
    /// scheduler.tensorstack.dev/v1beta1
    T9kPodGroup,
}

impl Kind {
    /// Jobs of every API may have it.
    pub fn is_everyones(&self) -> bool {
        !matches!(
            self,
            Self::StatefulSet | Self::ServiceAccount | Self::Role | Self::RoleBinding
        )
    }

    /// The word that messages use.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Pod => "Pod",
            Self::Job => "Job",
            Self::StatefulSet => "StatefulSet",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::VolcanoPodGroup | Self::SchedulerPluginsPodGroup | Self::T9kPodGroup => {
                "PodGroup"
            }
        }
    }

    /// The PodGroup of a gang scheduler.
    pub fn pod_group(scheduler: &GangScheduler) -> Self {
        match scheduler {
            GangScheduler::Volcano => Self::VolcanoPodGroup,
            GangScheduler::SchedulerPlugins(_) => Self::SchedulerPluginsPodGroup,
            GangScheduler::T9k => Self::T9kPodGroup,
        }
    }
}

/// Why a plan is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// There is something to do.
    Acting,
    /// There is nothing to do before this happens.
    Waiting(WaitingOn),
    /// The job is over and clean.
    Over,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// The user, to resume it.
    Resume,
    /// Somebody else's object to let go of a name.
    Name {
        /// What the job needs.
        kind: Kind,
        /// The name that is taken.
        name: String,
    },
    /// The API server, to accept an object.
    Acceptance {
        /// What was refused.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// The operator, to be told the image of the agent.
    Agent,
    /// Workers, to run.
    Workers {
        /// So many run.
        running: u32,
        /// So many are wanted.
        wanted: u32,
    },
    /// The launcher's pod, to run.
    Launcher,
    /// The program, to end.
    Program,
    /// The outcome, to be written into the status.
    Record,
    /// Pods that are being deleted, to be gone.
    Departures,
    /// Somebody, to delete the launcher that has ended, and so to ask for another.
    AnotherLauncher,
}

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let phase = Phase::of(observed);
    let steps = match phase {
        Phase::Finished => Vec::new(),
        Phase::Blocked => together([account::narrow(observed)]),
        Phase::Finishing if observed.recorded.outcome.is_none() => Vec::new(),
        Phase::Finishing => cleanup::steps(observed),
        Phase::Leaving => {
            together([[launcher::stop(observed), workers::remove_all(observed)].concat()])
        }
        Phase::Suspended => together([
            identity::ensure(observed),
            [
                launcher::align(observed),
                workers::remove_all(observed),
                gang::remove(observed),
                identity::remove_certificates(observed),
            ]
            .concat(),
        ]),
        // The launcher comes last: where a worker is refused, it must not start and fail.
        Phase::Preparing | Phase::Gathering | Phase::Launching | Phase::Running | Phase::Rested => {
            together([
                [
                    identity::ensure(observed),
                    account::ensure(observed),
                    gang::ensure(observed),
                ]
                .concat(),
                [
                    account::bind(observed),
                    retry::remove_counted(observed),
                    workers::ensure(observed),
                ]
                .concat(),
                [launcher::align(observed), hosts::tell(observed)].concat(),
            ])
        }
    };
    let steps = permitted(observed, steps);
    let because = say::because(observed, phase, &steps);
    let status = say::status(observed, phase);
    Plan {
        steps,
        status,
        wake: deadline::wake(observed),
        because,
    }
}

/// Without what the API server just refused. A step that loses an action ends the plan: what comes
/// after it must not come before it.
fn permitted(observed: &Observed, steps: Vec<Vec<Action>>) -> Vec<Vec<Action>> {
    let mut kept = Vec::new();
    for step in steps {
        let asked = step.len();
        let may_try = |action: &Action| blocked::may_try(observed, action);
        let step: Vec<Action> = step.into_iter().filter(may_try).collect();
        let whole = step.len() == asked;
        if !step.is_empty() {
            kept.push(step);
        }
        if !whole {
            break;
        }
    }
    kept
}

/// Steps without the empty ones.
fn together<const N: usize>(steps: [Vec<Action>; N]) -> Vec<Vec<Action>> {
    steps.into_iter().filter(|step| !step.is_empty()).collect()
}
