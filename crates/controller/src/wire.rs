//! What we read of the objects in a cluster: only the fields that a decision needs. Decides how
//! stored JSON becomes a [`Child`]; what a child means for its job is not known here.
//!
//! Whole objects are never kept: a pod is about 6 KB of JSON and a few hundred bytes here.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use planner::{Kind, contract, observed};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

mod job;
mod pod;
mod simple;

pub(crate) use job::Job;
pub(crate) use pod::Pod;
pub(crate) use simple::{ConfigMap, PodGroup, Service};

/// An object of a job, as far as it matters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Child {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// `metadata.resourceVersion`; 0 when it is no number.
    pub(crate) version: u64,
    pub(crate) owner: Option<Controller>,
    /// The job's UID, by label. A claim, not a proof: anybody may write labels.
    pub(crate) claims: Option<String>,
    /// It stands under the label that our watch selects by.
    pub(crate) watched: bool,
    pub(crate) facts: Facts,
}

/// The owner that controls an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// What matters of an object, by kind.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all objects are pods, so they stand inline"
)]
pub(crate) enum Facts {
    Service(observed::Service),
    Config(observed::Config),
    Pod { pod: observed::Pod, role: Role },
    Job(Box<observed::Launcher>),
    PodGroup(observed::PodGroup),
}

/// What a pod says it is, by label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Launcher,
    Worker,
    Neither,
}

/// A stored object that turns into a [`Child`]. Reading never fails for the shape of one part:
/// that part is then as if it were empty, and counted as unreadable.
pub(crate) trait Stored:
    Resource<DynamicType = ApiResource> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    /// Some part of it had a shape that we do not know.
    fn unreadable(&self) -> bool;
    /// What matters of it.
    fn child(self) -> Child;
}

/// The one way from text to a child, for answers of the API server.
pub(crate) fn child(kind: &Kind, text: &str) -> Result<Child, serde_json::Error> {
    fn read<K: Stored>(text: &str) -> Result<Child, serde_json::Error> {
        serde_json::from_str::<K>(text).map(Stored::child)
    }
    match kind {
        Kind::Service => read::<Service>(text),
        Kind::ConfigMap => read::<ConfigMap>(text),
        Kind::Pod => read::<Pod>(text),
        Kind::Job => read::<Job>(text),
        Kind::VolcanoPodGroup | Kind::SchedulerPluginsPodGroup => read::<PodGroup>(text),
        Kind::Secret => unreachable!("answers about Secrets are never read"),
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
        Kind::VolcanoPodGroup => ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
        Kind::SchedulerPluginsPodGroup => {
            ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
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
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(
    deserialize = "Spec: Deserialize<'de> + Default, Status: Deserialize<'de> + \
                             Default, Data: Deserialize<'de> + Default"
))]
pub(crate) struct Wire<Spec, Status, Data = IgnoredAny> {
    #[serde(deserialize_with = "lean_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Spec,
    #[serde(default)]
    pub(crate) status: Status,
    #[serde(default)]
    pub(crate) data: Data,
}

impl<Spec, Status, Data> Resource for Wire<Spec, Status, Data> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }
    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }
    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }
    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A part of an object that may have any shape: one that we cannot read must not hide the rest.
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
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Lean {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<std::collections::BTreeMap<String, String>>,
        owner_references:
            Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>>,
        creation_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
        deletion_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    }
    let lean = Lean::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: lean.name,
        namespace: lean.namespace,
        uid: lean.uid,
        resource_version: lean.resource_version,
        labels: lean.labels,
        owner_references: lean.owner_references,
        creation_timestamp: lean.creation_timestamp,
        deletion_timestamp: lean.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

/// A child from its metadata and facts.
fn assemble(metadata: ObjectMeta, watched: bool, facts: Facts) -> Child {
    let claims = label(&metadata, contract::JOB_UID_LABEL).map(str::to_owned);
    let version = version(&metadata);
    let owners = metadata.owner_references.unwrap_or_default();
    let owner = owners
        .into_iter()
        .find(|owner| owner.controller == Some(true));
    Child {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        version,
        owner: owner.map(|owner| Controller {
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
        }),
        claims,
        watched,
        facts,
    }
}

/// `metadata.resourceVersion` as a number; 0 when it is none.
pub(crate) fn version(metadata: &ObjectMeta) -> u64 {
    metadata
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn is_managed(metadata: &ObjectMeta) -> bool {
    label(metadata, contract::MANAGED_BY_LABEL) == Some(contract::MANAGED_BY)
}

fn uid(metadata: &ObjectMeta) -> String {
    metadata.uid.clone().unwrap_or_default()
}

fn created_at(metadata: &ObjectMeta) -> Timestamp {
    metadata
        .creation_timestamp
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}
