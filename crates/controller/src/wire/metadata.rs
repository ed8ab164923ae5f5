//! The few parts of an object's metadata that a decision needs. Decides how much of what others wrote
//! is kept: nothing of unknown labels and annotations, and no more of a text than its bound.

use std::marker::PhantomData;

use contract::labels;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use planner::{Fingerprint, text};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::protobuf::{Field, FieldKind, field};

/// The longest name that Kubernetes gives an object; owner references may name anything.
const NAME_BYTES_MAX: usize = 256;

/// The same in protobuf, by the numbers of `metav1.ObjectMeta`.
pub(super) const METADATA: &[Field] = &[
    field(1, "name", FieldKind::Text),
    field(3, "namespace", FieldKind::Text),
    field(5, "uid", FieldKind::Text),
    field(6, "resourceVersion", FieldKind::Text),
    field(8, "creationTimestamp", FieldKind::Time),
    field(9, "deletionTimestamp", FieldKind::Time),
    field(10, "deletionGracePeriodSeconds", FieldKind::Number),
    field(11, "labels", FieldKind::Map),
    field(12, "annotations", FieldKind::Map),
    field(13, "ownerReferences", FieldKind::Messages(OWNER_REFERENCE)),
];
const OWNER_REFERENCE: &[Field] = &[
    field(1, "kind", FieldKind::Text),
    field(3, "name", FieldKind::Text),
    field(4, "uid", FieldKind::Text),
    field(6, "controller", FieldKind::Flag),
];

/// `metadata`, as far as it matters.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(super) name: Option<Short>,
    pub(super) namespace: Option<Short>,
    pub(super) uid: Option<Short>,
    pub(super) resource_version: Option<Short>,
    pub(super) generation: Option<i64>,
    labels: Option<Labels>,
    annotations: Option<Annotations>,
    owner_references: Option<Controller>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
}

/// A text of at most this many bytes; the rest is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounded<const BYTES_MAX: usize>(pub(super) String);
/// A name or a word.
pub(super) type Short = Bounded<NAME_BYTES_MAX>;
/// A sentence. A container's last words have the same bound, which is the kubelet's.
pub(super) type Sentence = Bounded<4096>;

/// The labels that we read.
#[derive(Clone, Debug, Default)]
struct Labels {
    job_name: Option<Short>,
    job_uid: Option<Short>,
    role: Option<Short>,
    replica_index: Option<i64>,
    operator: bool,
    managed_by: bool,
}

/// The annotations that we read.
#[derive(Clone, Debug, Default)]
struct Annotations {
    hosts: Fingerprint,
    discovery: Fingerprint,
    told_end: bool,
    template: Option<Short>,
    gang: Option<Short>,
}

/// The owner reference that controls the object, of any number of them.
#[derive(Clone, Debug, Default)]
struct Controller(Option<OwnerReference>);

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct OwnerReference {
    pub(super) kind: Short,
    pub(super) name: Short,
    pub(super) uid: Short,
    controller: Option<bool>,
}

impl Metadata {
    /// The owner that controls it.
    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.as_ref()?.0.as_ref()
    }

    /// Its job, by label.
    pub(super) fn job_name(&self) -> Option<&str> {
        self.labels.as_ref()?.job_name.as_ref().map(Bounded::as_str)
    }

    /// The UID of its job, by label.
    pub(super) fn job_uid(&self) -> Option<&str> {
        self.labels.as_ref()?.job_uid.as_ref().map(Bounded::as_str)
    }

    /// Its role, by label.
    pub(super) fn role(&self) -> Option<&str> {
        self.labels.as_ref()?.role.as_ref().map(Bounded::as_str)
    }

    /// Its place among the hosts of its job, by label.
    pub(super) fn replica_index(&self) -> Option<i64> {
        self.labels.as_ref()?.replica_index
    }

    /// It has the label that our watch selects by.
    pub(super) fn has_watch_label(&self, is_pod: bool) -> bool {
        let labels = self.labels.as_ref();
        labels.is_some_and(|labels| match is_pod {
            true => labels.operator,
            false => labels.managed_by,
        })
    }

    /// Of the host list that it was given.
    pub(super) fn hosts(&self) -> Fingerprint {
        let annotations = self.annotations.as_ref();
        annotations.map_or_else(Fingerprint::default, |annotations| annotations.hosts)
    }

    /// Of the discovery script that it was given.
    pub(super) fn discovery(&self) -> Fingerprint {
        let annotations = self.annotations.as_ref();
        annotations.map_or_else(Fingerprint::default, |annotations| annotations.discovery)
    }

    /// It was told that its job is over.
    pub(super) fn told_end(&self) -> bool {
        let annotations = self.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.told_end)
    }

    /// What tells the template that was last written from another, or empty.
    pub(super) fn template(&self) -> String {
        let annotations = self.annotations.as_ref();
        let template = annotations.and_then(|annotations| annotations.template.as_ref());
        template.map_or_else(String::new, |template| template.0.clone())
    }

    /// The gang scheduler that its pods are for, or empty.
    pub(super) fn gang(&self) -> String {
        let annotations = self.annotations.as_ref();
        let gang = annotations.and_then(|annotations| annotations.gang.as_ref());
        gang.map_or_else(String::new, |gang| gang.0.clone())
    }

    /// When it was made.
    pub(super) fn created_at(&self) -> Timestamp {
        let created = self.creation_timestamp.as_ref();
        created.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// When its deletion is due, and after how many seconds of grace.
    pub(super) fn deletion(&self) -> Option<(Timestamp, i64)> {
        let grace = self.deletion_grace_period_seconds.unwrap_or_default();
        let deletion = self.deletion_timestamp.as_ref();
        deletion.map(|time| (time.0, grace))
    }

    /// It is being deleted.
    pub(super) fn deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// `metadata.resourceVersion` as a number; 0 when it is not one.
    pub(super) fn version(&self) -> u64 {
        let version = self.resource_version.as_ref();
        version
            .and_then(|version| version.0.parse().ok())
            .unwrap_or(0)
    }

    /// Its UID.
    pub(super) fn uid(&self) -> String {
        self.uid.clone().unwrap_or_default().0
    }
}

impl<const BYTES_MAX: usize> Bounded<BYTES_MAX> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads a text where it stands, so that what is not kept is not copied.
struct OfText<T>(fn(&str) -> T);

impl<T> Visitor<'_> for OfText<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok((self.0)(text))
    }
}

impl<'de, const BYTES_MAX: usize> Deserialize<'de> for Bounded<BYTES_MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OfText(|text| Self(text::truncated(text, BYTES_MAX))))
    }
}

/// A text as its fingerprint.
struct Print(Fingerprint);

impl<'de> Deserialize<'de> for Print {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OfText(|text| Self(Fingerprint::of(text))))
    }
}

/// The key of a label or annotation that we read, or any other.
#[derive(Clone, Copy)]
enum Key {
    JobName,
    JobUid,
    Role,
    ReplicaIndex,
    Operator,
    ManagedBy,
    Hosts,
    Discovery,
    End,
    Template,
    Gang,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OfText(|key| match key {
            labels::JOB_NAME_LABEL => Self::JobName,
            labels::JOB_UID_LABEL => Self::JobUid,
            labels::JOB_ROLE_LABEL => Self::Role,
            labels::REPLICA_INDEX_LABEL => Self::ReplicaIndex,
            labels::OPERATOR_NAME_LABEL => Self::Operator,
            labels::MANAGED_BY_LABEL => Self::ManagedBy,
            labels::HOSTS_ANNOTATION => Self::Hosts,
            labels::DISCOVERY_ANNOTATION => Self::Discovery,
            labels::END_ANNOTATION => Self::End,
            labels::TEMPLATE_ANNOTATION => Self::Template,
            labels::GANG_ANNOTATION => Self::Gang,
            _ => Self::Other,
        }))
    }
}

/// A map of which we read some keys.
trait Selected: Default {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error>;
}

impl Selected for Labels {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error> {
        match key {
            Key::JobName => self.job_name = Some(map.next_value()?),
            Key::JobUid => self.job_uid = Some(map.next_value()?),
            Key::Role => self.role = Some(map.next_value()?),
            Key::ReplicaIndex => self.replica_index = map.next_value::<Short>()?.0.parse().ok(),
            Key::Operator => {
                self.operator = map.next_value::<Short>()?.0 == labels::OPERATOR_NAME;
            }
            Key::ManagedBy => self.managed_by = map.next_value::<Short>()?.0 == labels::MANAGED_BY,
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl Selected for Annotations {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error> {
        match key {
            Key::Hosts => self.hosts = map.next_value::<Print>()?.0,
            Key::Discovery => self.discovery = map.next_value::<Print>()?.0,
            Key::End => self.told_end = map.next_value::<Print>()?.0 != Fingerprint::default(),
            Key::Template => self.template = Some(map.next_value()?),
            Key::Gang => self.gang = Some(map.next_value()?),
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct SelectedVisitor<T>(PhantomData<T>);

impl<'de, T: Selected> Visitor<'de> for SelectedVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut selected = T::default();
        while let Some(key) = map.next_key()? {
            selected.read(key, &mut map)?;
        }
        Ok(selected)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SelectedVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SelectedVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Controller {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Owners;
        impl<'de> Visitor<'de> for Owners {
            type Value = Controller;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("owner references")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut owners: A,
            ) -> Result<Controller, A::Error> {
                let mut controller = Controller::default();
                while let Some(owner) = owners.next_element::<OwnerReference>()? {
                    if owner.controller == Some(true) {
                        controller.0.get_or_insert(owner);
                    }
                }
                Ok(controller)
            }
        }
        deserializer.deserialize_seq(Owners)
    }
}
