//! The workers' StatefulSet. Their template is the user's but for labels and restart policy: nothing
//! is added to containers, volumes or environment.

use contract::labels::{
    APP_LABEL, JOB_NAME_LABEL, JOB_ROLE_LABEL, JOB_UID_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL,
    TEMPLATE_ANNOTATION, WORKER_ROLE,
};
use serde_json::{Map, Value, json};

use super::{child, object};
use crate::action::{Kind, Object};
use crate::job::{Job, RestartPolicy, StatefulWorkers};

/// The StatefulSet, for so many pods, which come together.
pub(crate) fn worker_set(job: &Job, workers: &StatefulWorkers, count: u32) -> Object {
    let name = &job.names.worker;
    let body = json!({"spec": {
        "replicas": count,
        // This Service does not exist: nobody resolves the names of the pods.
        "serviceName": job.names.service,
        "selector": {"matchLabels": {(APP_LABEL): name}},
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "template": template(job, workers),
    }});
    let mut set = child(job, Kind::StatefulSet, "apps/v1", name, body);
    set.body["metadata"]["annotations"] = json!({(TEMPLATE_ANNOTATION): fingerprint(workers)});
    set
}

/// Its pod template. The labels are what pods are found by, by the StatefulSet and by us.
pub(crate) fn template(job: &Job, workers: &StatefulWorkers) -> Value {
    let written = &workers.role.template;
    let mut metadata = Map::new();
    for key in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = written["metadata"].get(key) {
            metadata.insert(key.to_owned(), Value::Object(entries.clone()));
        }
    }
    let labels = object(&mut metadata, "labels");
    for (name, value) in [
        (APP_LABEL, job.names.worker.as_str()),
        (OPERATOR_NAME_LABEL, OPERATOR_NAME),
        (JOB_NAME_LABEL, &job.owner.name),
        (JOB_ROLE_LABEL, WORKER_ROLE),
        (JOB_UID_LABEL, &job.owner.uid),
    ] {
        labels.insert(name.to_owned(), value.into());
    }
    let mut spec = written["spec"].as_object().cloned().unwrap_or_default();
    // A StatefulSet allows no other.
    let restart = RestartPolicy::Always.as_str();
    spec.insert("restartPolicy".to_owned(), restart.into());
    json!({"metadata": metadata, "spec": spec})
}

/// Tells one template of the user's from another. What we add is not part of it: workers must not be
/// replaced because the operator was.
pub(crate) fn fingerprint(workers: &StatefulWorkers) -> String {
    let text = workers.role.template.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
