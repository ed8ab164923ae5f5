//! Objects of a job, as JSON. Decides what they contain; whether one is wanted is for the
//! policies. User templates are edited, never parsed: what we do not know passes through.

use contract::labels::{APP_LABEL, JOB_UID_LABEL, MANAGED_BY, MANAGED_BY_LABEL};
use serde_json::{Map, Value, json};

use crate::action::{Kind, Object};
use crate::job::{Job, Owner};

pub(crate) mod account;
pub(crate) mod agent;
pub(crate) mod exec;
pub(crate) mod hostfile;
pub(crate) mod identity;
pub(crate) mod launcher;
pub(crate) mod network_policy;
mod placement;
pub(crate) mod pod;
pub(crate) mod pod_group;
mod sidecar;
pub(crate) mod worker_pod;
pub(crate) mod worker_set;

/// A child that is not a pod: this body, with what every child has.
fn child(job: &Job, kind: Kind, api_version: &str, name: &str, mut body: Value) -> Object {
    body["apiVersion"] = api_version.into();
    body["kind"] = kind.as_str().into();
    body["metadata"] = metadata(job, name);
    Object::new(kind, name, body)
}

fn metadata(job: &Job, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": job.owner.namespace,
        "labels": {
            (APP_LABEL): job.owner.name,
            (MANAGED_BY_LABEL): MANAGED_BY,
            (JOB_UID_LABEL): job.owner.uid,
        },
        "ownerReferences": [owner_reference(&job.owner)],
    })
}

/// The reference that makes an object the job's own, and lets the garbage collector find it.
pub(crate) fn owner_reference(owner: &Owner) -> Value {
    json!({
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The object at `key`, made if it is missing or no object.
fn object<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value
        .as_object_mut()
        .expect("the value was just made an object")
}

/// The list at `key`, made if it is missing or no list.
fn list<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = parent.entry(key).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value
        .as_array_mut()
        .expect("the value was just made a list")
}
