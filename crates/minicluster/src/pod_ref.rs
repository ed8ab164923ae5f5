//! The identity of a pod, for the kubelet's orders and for questions about logs.

use serde_json::Value;

/// Which pod. A pod that is deleted and recreated under its old name has another `uid`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl PodRef {
    /// Of a stored Pod.
    pub fn of(pod: &Value) -> Self {
        let text = |field: &str| {
            pod["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
        }
    }
}
