//! The NetworkPolicy of a job: who may connect to its pods. Where they connect to stays open, because
//! programs load data, resolve names and call the API server.

use contract::labels::JOB_UID_LABEL;
use serde_json::{Value, json};

use super::child;
use crate::action::{Kind, Object};
use crate::job::Job;

/// The NetworkPolicy, under the job's name.
pub(crate) fn network_policy(job: &Job) -> Object {
    let (name, body) = (&job.owner.name, json!({"spec": spec(job)}));
    child(job, Kind::NetworkPolicy, "networking.k8s.io/v1", name, body)
}

/// Its spec, spelled as the API server gives it back. A peer without a namespace is one of the job's own
/// namespace.
pub(crate) fn spec(job: &Job) -> Value {
    let own = json!({"matchLabels": {(JOB_UID_LABEL): job.owner.uid}});
    json!({
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    })
}
