//! The job as its user wrote it, in any dialect. It is kept whole, because only its dialect can read it,
//! except for metadata of others, which is often larger than the job.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ObjectKey, lean_metadata};
use crate::api_error::ApiError;

/// `kubectl apply` keeps a copy of the whole object in here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A stored job. Its spec and status may have any shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UserJob {
    #[serde(deserialize_with = "lean_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

impl UserJob {
    /// From an answer of the API server.
    pub(crate) fn read(text: &str) -> Result<Arc<Self>, ApiError> {
        let mut job: Self = serde_json::from_str(text).map_err(ApiError::Unreadable)?;
        job.slim();
        Ok(Arc::new(job))
    }

    /// All of it, as its dialect reads it.
    pub(crate) fn whole(&self, resource: &ApiResource) -> Value {
        let metadata =
            serde_json::to_value(&self.metadata).expect("what came as JSON goes as JSON");
        json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "spec": self.spec,
            "status": self.status,
        })
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

    /// `metadata.resourceVersion` as a number.
    pub(crate) fn version(&self) -> u64 {
        super::version(&self.metadata)
    }

    /// Drops what no decision reads.
    pub(crate) fn slim(&mut self) {
        if let Some(annotations) = &mut self.metadata.annotations {
            BTreeMap::remove(annotations, LAST_APPLIED);
        }
    }
}

dynamic_resource!(UserJob);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_any_shape_can_be_read_and_shown_whole() {
        let resource = crate::wire::named_resource("kubeflow.org", "v2beta1", "MPIJob", "mpijobs");
        for stored in [
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:x": {}}}]},
                   "spec": [1, 2], "status": "broken"}),
            json!({"metadata": {"name": "a", "annotations": {(LAST_APPLIED): "{}", "kept": "1"},
                   "generation": 3}, "spec": null, "status": null, "kind": 7}),
        ] {
            let mut job: UserJob = serde_json::from_value(stored.clone()).unwrap();
            job.slim();
            let whole = job.whole(&resource);
            assert_eq!(whole["spec"], stored["spec"]);
            assert_eq!(whole["status"], stored["status"]);
            assert_eq!(
                whole["metadata"]["generation"],
                stored["metadata"]["generation"]
            );
            assert!(!whole.to_string().contains("last-applied"));
            assert!(!whole.to_string().contains("managedFields"));
        }
    }
}
