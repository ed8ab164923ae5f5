//! What a plan can ask for: requests, the objects in them and their kinds. Decides how they are spelled;
//! which ones are wanted is for the policies.

use serde_json::Value;

use crate::keys::Keys;
use crate::site::GangApi;
use crate::worker_batch::WorkerBatch;
use crate::worker_selection::WorkerSelection;

/// One change to bring about, as one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create this object.
    Create(Object),
    /// Create these workers' pods, one request for each.
    CreateWorkers(WorkerBatch),
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
    /// Forget this very pod, which is being deleted: its node does not confirm that its containers ended.
    ForgetPod {
        /// Its name.
        name: String,
        /// The request applies to this very pod only.
        uid: String,
    },
    /// Delete the Secret of this name, which the job's status records as its own.
    DeleteKey {
        /// Its name.
        name: String,
    },
    /// Delete workers of the job in one request.
    DeleteWorkers {
        /// What the request reaches.
        selection: WorkerSelection,
        /// The pods that are meant, all of them ours.
        names: Vec<String>,
    },
    /// Delete the job itself: it is over, and its time is up.
    DeleteJob {
        /// The delete applies to this very job only.
        uid: String,
    },
}

impl Action {
    /// Everything that it creates, whole. For people and tests: a batch of workers may be large.
    pub fn objects(&self) -> Vec<Object> {
        match self {
            Self::Create(object) | Self::CreateKey { secret: object, .. } => vec![object.clone()],
            Self::CreateWorkers(batch) => {
                let pod = |index: &u32| {
                    let body = serde_json::from_str(&batch.body(*index));
                    let body = body.expect("a batch makes bodies of JSON");
                    Object::new(Kind::Pod, &batch.name(*index), body)
                };
                batch.indices.iter().map(pod).collect()
            }
            Self::Patch { .. }
            | Self::Delete { .. }
            | Self::ForgetPod { .. }
            | Self::DeleteKey { .. }
            | Self::DeleteWorkers { .. }
            | Self::DeleteJob { .. } => Vec::new(),
        }
    }

    /// What it does, for messages: `creating Pod demo-worker-0`.
    pub fn describe(&self) -> String {
        match self {
            Self::Create(Object { kind, name, .. })
            | Self::CreateKey {
                secret: Object { kind, name, .. },
                ..
            } => format!("creating {} {name}", kind.as_str()),
            Self::CreateWorkers(_) => "creating workers".to_owned(),
            Self::Patch { kind, name, .. } => format!("changing {} {name}", kind.as_str()),
            Self::Delete { kind, name, .. } => format!("deleting {} {name}", kind.as_str()),
            Self::ForgetPod { name, .. } => format!("forgetting Pod {name}, whose node is gone"),
            Self::DeleteKey { name } => format!("deleting Secret {name}"),
            Self::DeleteWorkers { selection, .. } => {
                format!("deleting the pods {}", selection.labels())
            }
            Self::DeleteJob { .. } => "deleting the job after its time to live".to_owned(),
        }
    }

    /// Merges `merge` into this very object.
    pub(crate) fn patch(kind: Kind, name: &str, uid: &str, merge: Value) -> Self {
        let (name, uid) = (name.to_owned(), uid.to_owned());
        Self::Patch {
            kind,
            name,
            uid,
            subresource: None,
            merge,
        }
    }

    /// Deletes this very object.
    pub(crate) fn delete(kind: Kind, name: &str, uid: &str) -> Self {
        let (name, uid) = (name.to_owned(), uid.to_owned());
        Self::Delete { kind, name, uid }
    }
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

impl Object {
    pub(crate) fn new(kind: Kind, name: &str, body: Value) -> Self {
        let name = name.to_owned();
        Self { kind, name, body }
    }
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
    /// networking.k8s.io/v1
    NetworkPolicy,
    /// Of a gang scheduler.
    PodGroup(GangApi),
}

impl Kind {
    /// Jobs of every API may have it.
    pub fn is_common(&self) -> bool {
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
            Self::NetworkPolicy => "NetworkPolicy",
            Self::PodGroup(_) => "PodGroup",
        }
    }
}
