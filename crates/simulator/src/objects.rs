//! What is stored, as the laws and the simulated controllers look at it.

use std::sync::Arc;

use contract::labels::{JOB_ROLE_LABEL, JOB_UID_LABEL};
use dialects::RESOURCES;
use minicluster::Cluster;
use serde_json::Value;

/// The kinds of children, by group and plural.
pub(crate) const CHILDREN: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "services"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("batch", "jobs"),
    ("apps", "statefulsets"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("networking.k8s.io", "networkpolicies"),
];

/// All users' jobs.
pub(crate) fn jobs(
    cluster: &Cluster,
) -> impl Iterator<Item = (&'static dialects::Resource, &Arc<Value>)> {
    let of = move |resource: &'static dialects::Resource| {
        let jobs = cluster.objects(resource.group, resource.plural);
        jobs.map(move |job| (resource, job))
    };
    RESOURCES.iter().flat_map(of)
}

/// All pods of any job. A pod that only looks like one has no controller.
pub(crate) fn pods(cluster: &Cluster) -> impl Iterator<Item = &Arc<Value>> {
    let labelled = |pod: &&Arc<Value>| {
        pod["metadata"]["labels"][JOB_UID_LABEL].is_string() && controller(pod).is_some()
    };
    cluster.objects("", "pods").filter(labelled)
}

/// The UID of an object.
pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The UID of the job that a pod says it belongs to.
pub(crate) fn job_uid(object: &Value) -> &str {
    object["metadata"]["labels"][JOB_UID_LABEL]
        .as_str()
        .unwrap_or_default()
}

/// A pod that may run.
pub(crate) fn is_live(pod: &Value) -> bool {
    !matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    )
}

/// A pod that may run, and that nobody has told to stop.
pub(crate) fn stays(pod: &Value) -> bool {
    is_live(pod) && pod["metadata"]["deletionTimestamp"].is_null()
}

/// A pod that its kubelet calls ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// A launcher, in any dialect.
pub(crate) fn is_launcher(pod: &Value) -> bool {
    let role = pod["metadata"]["labels"][JOB_ROLE_LABEL].as_str();
    dialects::is_launcher_role(role.unwrap_or_default())
}

/// The job with this UID exists, and all of its workers are Ready.
pub(crate) fn has_all_workers(cluster: &Cluster, job: &str) -> bool {
    let Some((resource, object)) = jobs(cluster).find(|(_, object)| uid(object) == job) else {
        return false;
    };
    let Ok(lowered) = (resource.dialect_of(object).lower)(object) else {
        return false;
    };
    let ready =
        |pod: &&Arc<Value>| job_uid(pod) == job && !is_launcher(pod) && is_ready(pod) && stays(pod);
    pods(cluster).filter(ready).count() >= lowered.worker_count() as usize
}

/// The UID of whoever controls an object.
pub(crate) fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let mut controllers = owners.iter().filter(|owner| owner["controller"] == true);
    controllers.find_map(|owner| owner["uid"].as_str())
}
