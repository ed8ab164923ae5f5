//! The job as its user wrote it, in any dialect. It is kept as text, because only its dialect can read it
//! and a tree of values is five to ten times as large; and only if it is not too large: the text can be
//! asked for again. Metadata of others, which is often larger than the job, is not kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::ApiResource;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::ObjectKey;
use crate::api_error::ApiError;
use crate::job_texts::{Charge, JobTexts};

/// `kubectl apply` keeps a copy of the whole object in here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A stored job. Its spec and status may have any shape.
#[derive(Clone, Debug)]
pub(crate) struct UserJob {
    /// Who it is; its labels and annotations are in its text.
    pub(crate) metadata: ObjectMeta,
    has_status: bool,
    text: Option<Arc<JobText>>,
}

/// What a dialect reads.
#[derive(Debug)]
struct JobText {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
    /// As long as it is kept in a store.
    _charge: Option<Charge>,
}

impl UserJob {
    /// From an answer of the API server.
    pub(crate) fn read(text: &str) -> Result<Arc<Self>, ApiError> {
        let job = serde_json::from_str(text).map_err(ApiError::Unreadable)?;
        Ok(Arc::new(job))
    }

    /// All of it, as its dialect reads it.
    ///
    /// # Panics
    ///
    /// If its text was left out.
    pub(crate) fn whole(&self, resource: &ApiResource) -> Value {
        let text = self
            .text
            .as_ref()
            .expect("a pass asks for the text of a job that was left out");
        let mut metadata = self.named();
        for (name, texts) in [("labels", &text.labels), ("annotations", &text.annotations)] {
            if !texts.is_empty() {
                let texts = texts.iter();
                let texts = texts.map(|(key, text)| (key.clone(), text.as_str().into()));
                metadata.insert(name.to_owned(), Value::Object(texts.collect()));
            }
        }
        let part = |part: &Option<Box<RawValue>>| -> Value {
            let part = part.as_ref().map(|part| serde_json::from_str(part.get()));
            part.transpose()
                .expect("it was read as JSON before")
                .unwrap_or_default()
        };
        // Moved, not copied as `json!` does: every pass asks for this.
        Value::Object(Map::from_iter([
            (
                "apiVersion".to_owned(),
                resource.api_version.as_str().into(),
            ),
            ("kind".to_owned(), resource.kind.as_str().into()),
            ("metadata".to_owned(), Value::Object(metadata)),
            ("spec".to_owned(), part(&text.spec)),
            ("status".to_owned(), part(&text.status)),
        ]))
    }

    /// Its metadata but for what only its text has.
    fn named(&self) -> Map<String, Value> {
        let metadata = &self.metadata;
        let text = |text: &Option<String>| text.as_deref().map(Value::from);
        let time = |time: &Option<Time>| {
            let time = time.as_ref().map(serde_json::to_value);
            time.transpose().expect("what came as JSON goes as JSON")
        };
        let fields = [
            ("name", text(&metadata.name)),
            ("namespace", text(&metadata.namespace)),
            ("uid", text(&metadata.uid)),
            ("resourceVersion", text(&metadata.resource_version)),
            ("generation", metadata.generation.map(Value::from)),
            ("creationTimestamp", time(&metadata.creation_timestamp)),
            ("deletionTimestamp", time(&metadata.deletion_timestamp)),
        ];
        let known = fields.into_iter();
        known
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }

    /// Its namespace and name.
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(
            self.metadata.namespace.as_deref().unwrap_or_default(),
            self.metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Its UID.
    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// `metadata.resourceVersion` as a number; 0 when it is not one.
    pub(crate) fn version(&self) -> u64 {
        let version = self.metadata.resource_version.as_deref();
        version.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// An operator has written its status.
    pub(crate) fn has_status(&self) -> bool {
        self.has_status
    }

    /// Its text must be asked for.
    pub(crate) fn is_left_out(&self) -> bool {
        self.text.is_none()
    }

    /// As it is kept in a store: with its text, if there is room for it. The text of the version that
    /// is in the store already is shared.
    pub(crate) fn keep(&mut self, texts: &Arc<JobTexts>, stored: Option<&Self>) {
        let same =
            |stored: &&Self| stored.uid() == self.uid() && stored.version() == self.version();
        if let Some(stored) = stored.filter(same) {
            self.text.clone_from(&stored.text);
            return;
        }
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let text = self.text.take().and_then(Arc::into_inner);
        self.text = text.and_then(|text| {
            let charge = texts.charge(namespace, text.bytes())?;
            Some(Arc::new(JobText {
                _charge: Some(charge),
                ..text
            }))
        });
    }

    /// The same job, without its text if that is large.
    pub(crate) fn remembered(self: &Arc<Self>) -> Arc<Self> {
        let is_large = |text: &Arc<JobText>| JobTexts::is_large(text.bytes());
        match self.text.as_ref().is_some_and(is_large) {
            false => Arc::clone(self),
            true => Arc::new(Self {
                text: None,
                ..Self::clone(self)
            }),
        }
    }
}

impl JobText {
    fn bytes(&self) -> usize {
        let texts = |texts: &BTreeMap<String, String>| -> usize {
            texts
                .iter()
                .map(|(key, value)| key.len() + value.len())
                .sum()
        };
        let part = |part: &Option<Box<RawValue>>| part.as_ref().map_or(0, |part| part.get().len());
        texts(&self.labels) + texts(&self.annotations) + part(&self.spec) + part(&self.status)
    }
}

impl<'de> Deserialize<'de> for UserJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            metadata: Metadata,
            #[serde(default)]
            spec: Option<Box<RawValue>>,
            #[serde(default)]
            status: Option<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            name: Option<String>,
            namespace: Option<String>,
            uid: Option<String>,
            resource_version: Option<String>,
            generation: Option<i64>,
            labels: Option<BTreeMap<String, String>>,
            annotations: Option<BTreeMap<String, String>>,
            creation_timestamp: Option<Time>,
            deletion_timestamp: Option<Time>,
        }
        let Stored {
            metadata,
            spec,
            status,
        } = Stored::deserialize(deserializer)?;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        Ok(Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                generation: metadata.generation,
                creation_timestamp: metadata.creation_timestamp,
                deletion_timestamp: metadata.deletion_timestamp,
                ..ObjectMeta::default()
            },
            has_status: status.is_some(),
            text: Some(Arc::new(JobText {
                labels: metadata.labels.unwrap_or_default(),
                annotations,
                spec,
                status,
                _charge: None,
            })),
        })
    }
}

/// kube's trait: how a job is read is this type, where it lives is a value.
impl kube::Resource for UserJob {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.kind.as_str().into()
    }
    fn group(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.group.as_str().into()
    }
    fn version(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.version.as_str().into()
    }
    fn plural(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(namespace: &str, version: u32, spec: &str) -> UserJob {
        let stored = json!({"metadata": {"name": "a", "namespace": namespace, "uid": "u",
            "resourceVersion": version.to_string()}, "spec": spec});
        serde_json::from_str(&stored.to_string()).expect("it is a job")
    }

    #[test]
    fn a_job_of_any_shape_can_be_read_and_shown_whole() {
        let resource = crate::wire::named_resource("kubeflow.org", "v2beta1", "MPIJob", "mpijobs");
        for stored in [
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:x": {}}}]},
                   "spec": [1, 2], "status": "broken"}),
            json!({"metadata": {"name": "a", "annotations": {(LAST_APPLIED): "{}", "kept": "1"},
                   "labels": {"l": "1"}, "generation": 3}, "spec": null, "status": null, "kind": 7}),
        ] {
            let job = UserJob::read(&stored.to_string()).expect("it is a job");
            let whole = job.whole(&resource);
            assert_eq!(whole["spec"], stored["spec"]);
            assert_eq!(whole["status"], stored["status"]);
            let metadata = &stored["metadata"];
            assert_eq!(whole["metadata"]["generation"], metadata["generation"]);
            assert_eq!(whole["metadata"]["labels"], metadata["labels"]);
            let kept = &whole["metadata"]["annotations"]["kept"];
            assert_eq!(*kept, metadata["annotations"]["kept"]);
            assert!(!whole.to_string().contains("last-applied"));
            assert!(!whole.to_string().contains("managedFields"));
        }
    }

    #[test]
    fn s01b_the_text_of_a_job_is_kept_if_there_is_room_for_it() {
        let texts = Arc::default();
        let mut small = job("a", 1, "small");
        small.keep(&texts, None);
        assert!(!small.is_left_out());
        let mut large = job("a", 1, &"x".repeat(1 << 20));
        assert!(Arc::new(large.clone()).remembered().is_left_out());
        large.keep(&texts, None);
        assert!(large.is_left_out());
        // Listed again, an unchanged job shares its text with the store.
        let mut again = job("a", 1, "small");
        again.keep(&texts, Some(&small));
        assert_eq!(again.text.map(|text| Arc::strong_count(&text)), Some(2));
    }
}
