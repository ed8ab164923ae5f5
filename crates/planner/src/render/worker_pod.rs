//! One worker pod.

use serde_json::{Value, json};

use super::{agent, owner_reference, pod};
use crate::contract::{REPLICA_INDEX_LABEL, ROLE_VARIABLE};
use crate::job::{Job, Transport, Workers};
use crate::observed::Site;
use crate::plan::{Kind, Object, gang};

const ROLE: &str = "worker";
const DEFAULT_CLUSTER_DOMAIN: &str = "cluster.local";

/// Worker `index`.
pub(crate) fn worker_pod(job: &Job, site: &Site, workers: &Workers, index: u32) -> Object {
    let name = job.worker_name(index);
    let mut draft = pod::draft(job, &workers.role, ROLE, &name);
    // A launcher that is a host has rank 0 of the hosts.
    let host_index = index + u32::from(job.launcher_is_host);
    draft.label(REPLICA_INDEX_LABEL, &host_index.to_string());
    gang::decorate(job, site, &mut draft);

    let domain = match site.cluster_domain.as_str() {
        "" => DEFAULT_CLUSTER_DOMAIN,
        domain => domain,
    };
    // Intel MPI and MPICH call the launcher back by its short name.
    let service = job.service_name();
    draft.search_domain(format!("{service}.{}.svc.{domain}", job.owner.namespace));

    draft.variable(ROLE_VARIABLE, ROLE);
    match (job.transport(site), &site.agent_image) {
        (Transport::Agent, Some(image)) => agent::serve(job, image, index, &mut draft),
        (Transport::Agent, None) | (Transport::Ssh, _) => serve_ssh(job, &mut draft),
    }

    let mut metadata = draft.metadata;
    metadata.insert("name".to_owned(), name.as_str().into());
    metadata.insert("namespace".to_owned(), job.owner.namespace.as_str().into());
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([owner_reference(&job.owner)]),
    );
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": draft.spec});
    Object {
        kind: Kind::Pod,
        name,
        body,
    }
}

fn serve_ssh(job: &Job, draft: &mut pod::Draft) {
    draft.ssh_key(job);
    let container = draft.main_container();
    let silent = |key: &str| match container.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => value.as_array().is_some_and(Vec::is_empty),
    };
    if silent("command") && silent("args") {
        container.insert("command".to_owned(), json!(["/usr/sbin/sshd", "-De"]));
    }
}
