//! The workers' StatefulSet: its replicas and template, and how far its controller has rolled them out.

use planner::observed;
use serde::Deserialize;
use serde_json::Value;

use super::{Child, Facts, IntoChild, Part, RawObject, assemble};

/// apps/v1 StatefulSet.
pub(super) type StatefulSet = RawObject<Part<SetSpec>, Part<SetStatus>>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SetSpec {
    replicas: Option<u32>,
    template: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SetStatus {
    observed_generation: i64,
    ready_replicas: u32,
    updated_replicas: u32,
    replicas: u32,
}

impl IntoChild for StatefulSet {
    fn unreadable(&self) -> bool {
        self.spec.unreadable() || self.status.unreadable()
    }

    fn child(self) -> Child {
        let (spec, status) = (self.spec.or_default(), self.status.or_default());
        let replicas = spec.replicas.unwrap_or(1);
        let seen = status.observed_generation >= self.metadata.generation.unwrap_or_default();
        let pods = [
            status.replicas,
            status.ready_replicas,
            status.updated_replicas,
        ];
        let facts = Facts::WorkerSet(Box::new(observed::WorkerSet {
            uid: self.metadata.uid(),
            replicas,
            template: spec.template,
            fingerprint: self.metadata.template(),
            rolled_out: seen && pods.iter().all(|count| *count == replicas),
            deleting: self.metadata.deleting(),
        }));
        assemble(&self.metadata, facts)
    }
}
