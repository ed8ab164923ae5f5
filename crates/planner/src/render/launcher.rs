//! The launcher: its pod, or its batch Job and the part of that which may still change while it is
//! suspended.

use std::collections::BTreeMap;

use contract::env::ROLE_VARIABLE;
use contract::files::{
    CONFIG_MOUNT_PATH, CONFIG_VOLUME, DISCOVER_HOSTS, EXEC_SCRIPT, HOSTFILE, SCRIPT_VOLUME,
};
use contract::labels::{LAUNCHER_ROLE, REPLICA_INDEX_LABEL};
use contract::mpi::{HostListSyntax, OverSsh};
use serde_json::{Map, Value, json};

use super::{agent, exec, metadata, pod, pod_group};
use crate::action::{Kind, Object};
use crate::job::Job;
use crate::mpi;
use crate::observed::Directives;
use crate::site::{Site, Transport};

/// The Job. It carries no time to live: see docs/decisions/0003.
pub(crate) fn launcher_job(job: &Job, site: &Site) -> Object {
    let name = job.launcher_name();
    let template = template(job, site);
    let mut spec = json!({
        "podReplacementPolicy": "Failed",
        "template": {"metadata": template.metadata, "spec": template.spec},
    });
    if let Some(secs) = job.policy.deadline_secs {
        spec["activeDeadlineSeconds"] = secs.into();
    }
    if let Some(limit) = job.policy.backoff_limit {
        spec["backoffLimit"] = limit.into();
    }
    if job.policy.suspended {
        spec["suspend"] = true.into();
    }
    let body = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(job, &name),
        "spec": spec,
    });
    Object {
        kind: Kind::Job,
        name,
        body,
    }
}

/// The launcher where it is a pod.
pub(crate) fn launcher_pod(job: &Job, site: &Site) -> Object {
    template(job, site).into_pod(job, job.launcher_name())
}

fn template(job: &Job, site: &Site) -> pod::Draft {
    if job.transport(site) == Transport::Exec {
        return exec::template(job, site);
    }
    let mut draft = pod::draft(job, &job.launcher, LAUNCHER_ROLE, &job.launcher_name());
    if job.launcher_is_host && job.launcher_is_indexed {
        draft.label(REPLICA_INDEX_LABEL, "0");
    }
    pod_group::enlist(job, site, &mut draft);
    if job.bootstrap.is_some() {
        return draft;
    }
    exec::act_as(job, &mut draft);

    draft.variable(ROLE_VARIABLE, LAUNCHER_ROLE);
    if job.transport(site) == Transport::Ssh {
        draft.ssh_key(job);
        for (name, value) in mpi::ssh_variables(job, site, OverSsh::First) {
            draft.variable(name, &value);
        }
    }
    if !job.launcher_is_host {
        // Some container runtimes hand every GPU of the node to a pod that does not say no.
        draft.variable("NVIDIA_VISIBLE_DEVICES", "");
        draft.variable("NVIDIA_DRIVER_CAPABILITIES", "");
    }
    draft.volume(host_lists(job, site));
    draft.mount(CONFIG_VOLUME, CONFIG_MOUNT_PATH);
    if job.exec_script && agent::gate_writes_lists(job, site) {
        scripts(job, &mut draft);
    }
    match (job.transport(site), &site.agent_image) {
        (Transport::Agent, Some(image)) => agent::launch(job, site, image, &mut draft),
        // Not rendered: such a job is blocked.
        (Transport::Agent | Transport::Exec, _) => {}
        (Transport::Ssh, _) => {
            for (name, value) in mpi::ssh_variables(job, site, OverSsh::Last) {
                draft.variable(name, &value);
            }
            for (name, value) in mpi::ssh_variables(job, site, OverSsh::IfUnset) {
                draft.default_variable(name, &value);
            }
            if let Some(image) = job.gate(site) {
                agent::await_sshd(job, image, &mut draft);
            }
        }
    }
    draft
}

/// What the launcher sees as `/etc/mpi`.
fn host_lists(job: &Job, site: &Site) -> Value {
    if agent::gate_writes_lists(job, site) {
        return json!({"name": CONFIG_VOLUME, "emptyDir": {}});
    }
    let more: &[HostListSyntax] = match job.transport(site) {
        Transport::Ssh | Transport::Exec => &[],
        Transport::Agent => &HostListSyntax::ALL,
    };
    let mut items = vec![
        json!({"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444}),
        json!({"key": DISCOVER_HOSTS, "path": DISCOVER_HOSTS, "mode": 0o555}),
    ];
    if job.exec_script {
        items.push(json!({"key": EXEC_SCRIPT, "path": EXEC_SCRIPT, "mode": 0o555}));
    }
    items.extend(
        more.iter()
            .map(|syntax| syntax.file())
            .map(|key| json!({"key": key, "path": key, "mode": 0o444})),
    );
    json!({
        "name": CONFIG_VOLUME,
        "configMap": {"name": job.config_name(), "items": items},
    })
}

/// The scripts as they were promised, among the lists that the gate writes.
fn scripts(job: &Job, draft: &mut pod::Draft) {
    let files = [EXEC_SCRIPT, DISCOVER_HOSTS];
    let items = files.map(|key| json!({"key": key, "path": key, "mode": 0o555}));
    let config = json!({"name": job.config_name(), "items": items});
    draft.volume(json!({"name": SCRIPT_VOLUME, "configMap": config}));
    for file in files {
        draft.mount_file(SCRIPT_VOLUME, CONFIG_MOUNT_PATH, file);
    }
}

/// What the launcher's template says about where its pods may go.
pub(crate) fn directives(job: &Job, site: &Site) -> Directives {
    let template = template(job, site);
    let field = |key: &str| template.spec.get(key).cloned().unwrap_or_default();
    Directives {
        labels: strings(template.metadata.get("labels")),
        annotations: strings(template.metadata.get("annotations")),
        node_selector: field("nodeSelector"),
        tolerations: field("tolerations"),
        scheduling_gates: field("schedulingGates"),
        node_affinity: field("affinity")
            .get("nodeAffinity")
            .cloned()
            .unwrap_or_default(),
    }
}

fn strings(value: Option<&Value>) -> BTreeMap<String, String> {
    let entries = value.and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    entries
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(text)
        .collect()
}
