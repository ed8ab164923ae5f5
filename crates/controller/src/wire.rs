//! What we read of the objects in a cluster: only the fields that a decision needs. Decides how
//! stored JSON becomes a [`Child`]; knows nothing of what a child means for its job.
//!
//! Whole objects are never kept: a pod is about 6 KB of JSON and a few hundred bytes here.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::labels;
use kube::core::ApiResource;
use planner::observed::{Directives, LauncherEnd};
use planner::{Kind, observed};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde_json::Value;

mod account;
mod job;
mod metadata;
mod pod;
mod simple;
mod stateful_set;
mod user_job;

use crate::encoding::{Encoded, Encoding};
use crate::protobuf::{self, Field};

use account::AccountObject;
use job::Job;
use metadata::{Metadata, Short};
use pod::Pod;
pub(crate) use pod::{PodFacts, Role};
use simple::{ConfigMap, NetworkPolicy, PodGroup, Service};
use stateful_set::StatefulSet;
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
trait IntoChild: DeserializeOwned {
    /// Its fields in protobuf, if it is asked for so.
    const PROTOBUF: &'static [Field] = &[];
    /// Some part of it had a shape that we do not know.
    fn unreadable(&self) -> bool {
        false
    }
    /// What matters of it.
    fn child(self) -> Child;
}

/// An object as it was read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) child: Child,
    /// Some part of it had a shape that we do not know.
    pub(crate) unreadable: bool,
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

/// About what a map, a set or an allocation costs besides its contents.
const OVERHEAD_BYTES: usize = 64;

impl Child {
    /// About how much memory it takes, with its places in an index.
    pub(crate) fn bytes(&self) -> usize {
        let owner = self.owner.as_ref().map_or(0, |owner| {
            // Siblings share it.
            owner.job_name.as_ref().map_or(0, |name| name.len())
        });
        let texts = self.key.name.len() + self.uid.len() + owner;
        size_of::<Self>() + 3 * OVERHEAD_BYTES + texts + self.facts.bytes()
    }
}

impl Facts {
    /// What it holds besides itself.
    fn bytes(&self) -> usize {
        let map = |map: &BTreeMap<String, String>| -> usize {
            let texts = map.iter().map(|(key, value)| key.len() + value.len());
            texts.map(|bytes| bytes + OVERHEAD_BYTES).sum()
        };
        match self {
            Self::Pod(pod) => pod.bytes(),
            Self::Service(service) => service.uid.len() + map(&service.selector),
            Self::Config(config) => {
                let files = config.files.iter().map(|name| name.len() + OVERHEAD_BYTES);
                config.uid.len() + files.sum::<usize>()
            }
            Self::Job(job) => {
                let Directives {
                    labels,
                    annotations,
                    node_selector,
                    tolerations,
                    scheduling_gates,
                    node_affinity,
                } = &job.directives;
                let values = [node_selector, tolerations, scheduling_gates, node_affinity];
                let values = values.into_iter().map(value_bytes).sum::<usize>();
                let end = match &job.end {
                    Some(LauncherEnd::Failed { reason, message }) => reason.len() + message.len(),
                    Some(LauncherEnd::Complete { .. }) | None => 0,
                };
                size_of_val(&**job) + end + map(labels) + map(annotations) + values
            }
            Self::PodGroup(group) => size_of_val(&**group) + value_bytes(&group.spec),
            Self::NetworkPolicy(policy) => size_of_val(&**policy) + value_bytes(&policy.spec),
            Self::Account(account) => {
                let values = value_bytes(&account.rules) + value_bytes(&account.subjects);
                size_of_val(&**account) + values
            }
            Self::WorkerSet(set) => size_of_val(&**set) + value_bytes(&set.template),
        }
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => {
            let values = values
                .iter()
                .map(|value| size_of::<Value>() + value_bytes(value));
            values.sum()
        }
        Value::Object(fields) => {
            let each = size_of::<Value>() + OVERHEAD_BYTES;
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| each + key.len() + value_bytes(value));
            fields.sum()
        }
    }
}

/// Reads an answer of the API server.
pub(crate) fn child(kind: &Kind, text: &str) -> Result<Child, serde_json::Error> {
    read(kind, Encoded::Json(text)).map(|reading| reading.child)
}

/// How objects of a kind are listed and watched. Pods are many, and anybody may make them large.
pub(crate) fn encoding(kind: &Kind) -> Encoding {
    match kind {
        Kind::Pod => Encoding::Protobuf,
        _ => Encoding::Json,
    }
}

/// Reads a stored object. Nothing of the text stays but what the child has.
pub(crate) fn read(kind: &Kind, object: Encoded<'_>) -> Result<Reading, serde_json::Error> {
    fn read<K: IntoChild>(object: Encoded<'_>) -> Result<Reading, serde_json::Error> {
        let object: K = match object {
            Encoded::Json(text) => serde_json::from_str(text)?,
            Encoded::Protobuf(bytes) => protobuf::read(K::PROTOBUF, bytes)?,
        };
        let unreadable = object.unreadable();
        let child = object.child();
        Ok(Reading { child, unreadable })
    }
    match kind {
        Kind::Service => read::<Service>(object),
        Kind::ConfigMap => read::<ConfigMap>(object),
        Kind::Pod => read::<Pod>(object),
        Kind::Job => read::<Job>(object),
        Kind::StatefulSet => read::<StatefulSet>(object),
        Kind::NetworkPolicy => read::<NetworkPolicy>(object),
        Kind::ServiceAccount | Kind::Role | Kind::RoleBinding => read::<AccountObject>(object),
        Kind::PodGroup(_) => read::<PodGroup>(object),
        Kind::Secret => Err(serde_json::Error::custom(
            "the operator does not read Secrets",
        )),
    }
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
        Kind::PodGroup(api) => {
            let (group, version) = api.group_version();
            (group, version, "PodGroup", "podgroups")
        }
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
#[derive(Debug, Deserialize)]
#[serde(bound(
    deserialize = "Spec: Deserialize<'de> + Default, Status: Deserialize<'de> + \
                             Default, Data: Deserialize<'de> + Default"
))]
struct RawObject<Spec, Status, Data = IgnoredAny> {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    data: Data,
}

/// A part of an object that may have any shape. An unreadable part must not hide the rest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
enum Part<T> {
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

/// A child from its metadata and facts.
fn assemble(metadata: &Metadata, facts: Facts) -> Child {
    let text = |text: &Option<Short>| text.as_ref().map_or("", Short::as_str).into();
    let is_pod = matches!(facts, Facts::Pod(_));
    Child {
        key: ObjectKey {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
        },
        uid: text(&metadata.uid),
        version: metadata.version(),
        owner: metadata.controller().map(|owner| {
            let is_between = matches!(owner.kind.as_str(), "Job" | "StatefulSet");
            let job_name = metadata.job_name().filter(|_| is_between);
            Arc::new(ControllerRef {
                kind: owner.kind.0.clone(),
                name: owner.name.0.clone(),
                uid: owner.uid.as_str().into(),
                job_name: job_name.map(Arc::from),
            })
        }),
        orphan_of: metadata
            .job_name()
            .filter(|_| metadata.controller().is_none() && metadata.job_uid().is_some())
            .map(Arc::from),
        job_label: metadata.job_uid().map(Arc::from),
        has_watch_label: metadata.has_watch_label(is_pod),
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

#[cfg(test)]
mod tests;
