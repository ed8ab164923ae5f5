//! What we read of the objects in a cluster: only the fields that a decision needs. Decides how
//! stored JSON becomes a [`Child`]; knows nothing of what a child means for its job.
//!
//! Whole objects are never kept: a pod is about 6 KB of JSON and a few hundred bytes here.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::ApiResource;
use planner::{Kind, observed};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

/// kube's trait for a type of ours: how it is read is the type, where it lives is a value.
macro_rules! dynamic_resource {
    ($type:ty $(, $parameter:ident)*) => {
        impl<$($parameter),*> kube::Resource for $type {
            type DynamicType = kube::core::ApiResource;
            type Scope = kube::core::DynamicResourceScope;

            fn kind(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.kind.as_str().into()
            }
            fn group(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.group.as_str().into()
            }
            fn version(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.version.as_str().into()
            }
            fn plural(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.plural.as_str().into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

mod account;
mod job;
mod pod;
mod simple;
mod stateful_set;
mod user_job;

pub(crate) use account::AccountObject;
pub(crate) use job::Job;
pub(crate) use pod::{Pod, PodFacts, Role};
pub(crate) use simple::{ConfigMap, NetworkPolicy, PodGroup, Service};
pub(crate) use stateful_set::StatefulSet;
pub(crate) use user_job::UserJob;

/// An object of a job, as far as it matters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Child {
    pub(crate) key: ObjectKey,
    pub(crate) uid: Arc<str>,
    /// `metadata.resourceVersion`; 0 when it is not a number.
    pub(crate) version: u64,
    pub(crate) owner: Option<Arc<ControllerRef>>,
    /// The UID of a job, by label. Anybody may write labels, so it proves nothing.
    pub(crate) job_label: Option<Arc<str>>,
    /// Of a pod that nobody controls any more: the job that it says it was made for.
    pub(crate) orphan_of: Option<Arc<str>>,
    /// It has the label that our watch selects by.
    pub(crate) has_watch_label: bool,
    pub(crate) facts: Facts,
}

/// Namespace and name. At most one object of a kind has them at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// The owner that controls an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerRef {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: Arc<str>,
    /// The job that a Job or StatefulSet belongs to, by the label of its pods.
    pub(crate) job_name: Option<Arc<str>>,
}

/// What matters of an object, by kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Facts {
    Service(observed::ServiceState),
    Config(observed::ConfigState),
    Pod(PodFacts),
    Job(Box<observed::LauncherJob>),
    NetworkPolicy(Box<observed::NetworkPolicyState>),
    PodGroup(Box<observed::PodGroup>),
    Account(Box<observed::AccountObject>),
    WorkerSet(Box<observed::WorkerSet>),
}

/// Accessors: the facts, if the object is of that kind.
macro_rules! accessors {
    ($($name:ident: $variant:ident => $type:ty,)*) => {
        impl Facts {
            $(pub(crate) fn $name(&self) -> Option<$type> {
                match self {
                    Self::$variant(facts) => Some(<$type>::clone(facts)),
                    _ => None,
                }
            })*
        }
    };
}

accessors! {
    service: Service => observed::ServiceState,
    config: Config => observed::ConfigState,
    launcher: Job => observed::LauncherJob,
    network_policy: NetworkPolicy => observed::NetworkPolicyState,
    pod_group: PodGroup => observed::PodGroup,
    account: Account => observed::AccountObject,
    worker_set: WorkerSet => observed::WorkerSet,
}

impl Facts {
    /// Of a pod.
    pub(crate) fn pod(&self) -> Option<&PodFacts> {
        match self {
            Self::Pod(pod) => Some(pod),
            _ => None,
        }
    }
}

/// A stored object that becomes a [`Child`]. A part of an unknown shape is read as empty, and counted
/// as unreadable.
pub(crate) trait IntoChild:
    Resource<DynamicType = ApiResource> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    /// Some part of it had a shape that we do not know.
    fn unreadable(&self) -> bool {
        false
    }
    /// What matters of it.
    fn child(self) -> Child;
}

impl ObjectKey {
    /// Of a namespace and a name.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl Child {
    /// Controlled by the object with this UID.
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| *owner.uid == *uid)
    }

    /// The job it belongs to: its owner, or, by its label, the owner of the Job or StatefulSet that made
    /// it. That may be gone.
    pub(crate) fn job(&self) -> Option<ObjectKey> {
        let name = match &self.owner {
            None => Arc::clone(self.orphan_of.as_ref()?),
            Some(owner) => match owner.kind.as_str() {
                "Job" | "StatefulSet" => Arc::clone(owner.job_name.as_ref()?),
                _ => owner.name.as_str().into(),
            },
        };
        Some(ObjectKey {
            namespace: Arc::clone(&self.key.namespace),
            name,
        })
    }

    /// Nothing but its version differs.
    pub(crate) fn same_except_version(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.owner == other.owner
            && self.job_label == other.job_label
            && self.facts == other.facts
    }
}

/// Reads an answer of the API server.
pub(crate) fn child(kind: &Kind, text: &str) -> Result<Child, serde_json::Error> {
    fn read<K: IntoChild>(text: &str) -> Result<Child, serde_json::Error> {
        serde_json::from_str::<K>(text).map(IntoChild::child)
    }
    match kind {
        Kind::Service => read::<Service>(text),
        Kind::ConfigMap => read::<ConfigMap>(text),
        Kind::Pod => read::<Pod>(text),
        Kind::Job => read::<Job>(text),
        Kind::StatefulSet => read::<StatefulSet>(text),
        Kind::NetworkPolicy => read::<NetworkPolicy>(text),
        Kind::ServiceAccount | Kind::Role | Kind::RoleBinding => read::<AccountObject>(text),
        Kind::VolcanoPodGroup | Kind::SchedulerPluginsPodGroup | Kind::T9kPodGroup => {
            read::<PodGroup>(text)
        }
        Kind::Secret => unreachable!("answers about Secrets are never read"),
    }
}

/// Who an object is, and who controls it.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) uid: String,
    pub(crate) controller: Option<String>,
}

/// An object's identity, from its metadata alone.
pub(crate) fn identity(text: &str) -> Result<Identity, serde_json::Error> {
    let object: RawObject<IgnoredAny, IgnoredAny> = serde_json::from_str(text)?;
    let mut owners = object
        .metadata
        .owner_references
        .unwrap_or_default()
        .into_iter();
    let controller = owners.find(|owner| owner.controller == Some(true));
    Ok(Identity {
        uid: object.metadata.uid.unwrap_or_default(),
        controller: controller.map(|owner| owner.uid),
    })
}

/// Where objects of a kind live in the API.
pub(crate) fn resource(kind: &Kind) -> ApiResource {
    let (group, version, kind, plural) = match kind {
        Kind::Service => ("", "v1", "Service", "services"),
        Kind::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
        Kind::Secret => ("", "v1", "Secret", "secrets"),
        Kind::Pod => ("", "v1", "Pod", "pods"),
        Kind::Job => ("batch", "v1", "Job", "jobs"),
        Kind::StatefulSet => ("apps", "v1", "StatefulSet", "statefulsets"),
        Kind::ServiceAccount => ("", "v1", "ServiceAccount", "serviceaccounts"),
        Kind::Role => ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
        Kind::RoleBinding => (
            "rbac.authorization.k8s.io",
            "v1",
            "RoleBinding",
            "rolebindings",
        ),
        Kind::NetworkPolicy => (
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            "networkpolicies",
        ),
        Kind::VolcanoPodGroup => ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
        Kind::SchedulerPluginsPodGroup => {
            ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
        }
        Kind::T9kPodGroup => (
            "scheduler.tensorstack.dev",
            "v1beta1",
            "PodGroup",
            "podgroups",
        ),
    };
    named_resource(group, version, kind, plural)
}

/// Where objects of any kind live in the API.
pub(crate) fn named_resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// A stored object with the parts that we read.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(
    deserialize = "Spec: Deserialize<'de> + Default, Status: Deserialize<'de> + \
                             Default, Data: Deserialize<'de> + Default"
))]
pub(crate) struct RawObject<Spec, Status, Data = IgnoredAny> {
    #[serde(deserialize_with = "lean_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    data: Data,
}

dynamic_resource!(RawObject<Spec, Status, Data>, Spec, Status, Data);

/// A part of an object that may have any shape. An unreadable part must not hide the rest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
pub(crate) enum Part<T> {
    Read(T),
    Unreadable(IgnoredAny),
    #[default]
    #[serde(skip)]
    Absent,
}

impl<T: Default> Part<T> {
    fn unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_))
    }

    fn or_default(self) -> T {
        match self {
            Self::Read(part) => part,
            Self::Unreadable(_) | Self::Absent => T::default(),
        }
    }
}

/// Metadata without `managedFields`, which are the largest part of a small object.
fn lean_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Lean {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        deletion_grace_period_seconds: Option<i64>,
    }
    let lean = Lean::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: lean.name,
        namespace: lean.namespace,
        uid: lean.uid,
        resource_version: lean.resource_version,
        generation: lean.generation,
        labels: lean.labels,
        annotations: lean.annotations,
        owner_references: lean.owner_references,
        creation_timestamp: lean.creation_timestamp,
        deletion_timestamp: lean.deletion_timestamp,
        deletion_grace_period_seconds: lean.deletion_grace_period_seconds,
        ..ObjectMeta::default()
    })
}

/// A child from its metadata and facts.
fn assemble(metadata: &ObjectMeta, facts: Facts) -> Child {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true));
    let (watch_label, value) = watch_label(matches!(facts, Facts::Pod(_)));
    Child {
        key: ObjectKey {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
        },
        uid: text(&metadata.uid),
        version: version(metadata),
        owner: owner.map(|owner| {
            let is_between = matches!(owner.kind.as_str(), "Job" | "StatefulSet");
            let job_name = label(metadata, labels::JOB_NAME_LABEL).filter(|_| is_between);
            Arc::new(ControllerRef {
                kind: owner.kind.clone(),
                name: owner.name.clone(),
                uid: owner.uid.as_str().into(),
                job_name: job_name.map(Arc::from),
            })
        }),
        orphan_of: label(metadata, labels::JOB_NAME_LABEL)
            .filter(|_| owner.is_none() && label(metadata, labels::JOB_UID_LABEL).is_some())
            .map(Arc::from),
        job_label: label(metadata, labels::JOB_UID_LABEL).map(Arc::from),
        has_watch_label: label(metadata, watch_label) == Some(value),
        facts,
    }
}

/// The label that our watch selects by. Pods have that of Kubeflow's operator, because those of a
/// Job or StatefulSet carry the labels of its template alone.
pub(crate) fn watch_label(is_pod: bool) -> (&'static str, &'static str) {
    if is_pod {
        (labels::OPERATOR_NAME_LABEL, labels::OPERATOR_NAME)
    } else {
        (labels::MANAGED_BY_LABEL, labels::MANAGED_BY)
    }
}

/// `metadata.resourceVersion` as a number; 0 when it is not one.
fn version(metadata: &ObjectMeta) -> u64 {
    metadata
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// The value of an annotation, or nothing.
fn annotation(metadata: &ObjectMeta, key: &str) -> String {
    let annotations = metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(key))
        .cloned()
        .unwrap_or_default()
}

fn uid(metadata: &ObjectMeta) -> String {
    metadata.uid.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests;
