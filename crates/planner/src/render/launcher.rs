//! The launcher: its pod, or its batch Job and the part of that which may still change while it is
//! suspended.

use std::collections::BTreeMap;

use contract::env::ROLE_VARIABLE;
use contract::files::{
    CONFIG_MOUNT_PATH, CONFIG_VOLUME, DISCOVER_HOSTS, EXEC_SCRIPT, HOSTFILE, SCRIPT_VOLUME,
};
use contract::labels::{DISCOVERY_ANNOTATION, GANG_ANNOTATION, LAUNCHER_ROLE, REPLICA_INDEX_LABEL};
use contract::mpi::{HostListSyntax, OverSsh};
use serde_json::{Map, Value, json};

use super::{agent, child, exec, identity, object, placement, pod, pod_group};
use crate::action::{Kind, Object};
use crate::host_name;
use crate::job::{Job, Launcher, LauncherHost, Login};
use crate::mpi;
use crate::observed::Directives;
use crate::reach::Reach;
use crate::site::Site;

/// The Job. It carries no time to live: see docs/decisions/0003.
pub(crate) fn launcher_job(job: &Job, site: &Site, reach: Reach<'_>) -> Object {
    let template = template(job, site, reach);
    let mut spec = json!({
        "podReplacementPolicy": "Failed",
        "template": {"metadata": template.metadata, "spec": template.spec},
    });
    if let Some(secs) = job.limits().deadline_secs {
        spec["activeDeadlineSeconds"] = secs.into();
    }
    if let Some(limit) = job.limits().backoff_limit {
        spec["backoffLimit"] = limit.into();
    }
    if job.lifecycle.suspended {
        spec["suspend"] = true.into();
    }
    let body = json!({"spec": spec});
    let mut made = child(job, Kind::Job, "batch/v1", &job.names.launcher, body);
    if let Some(gang) = job.gang_scheduler(site) {
        made.body["metadata"]["annotations"] = json!({(GANG_ANNOTATION): gang.as_str()});
    }
    made
}

/// The launcher where it is a pod.
pub(crate) fn launcher_pod(job: &Job, site: &Site, reach: Reach<'_>) -> Object {
    template(job, site, reach).into_pod(job, &job.names.launcher)
}

fn template(job: &Job, site: &Site, reach: Reach<'_>) -> pod::Draft {
    let Launcher {
        role, kind, host, ..
    } = &job.launcher;
    let name = &job.names.launcher;
    let hostname = host_name::of_pod(job.host_names(), name);
    let mut draft = pod::draft(
        job,
        role,
        kind.restart(),
        LAUNCHER_ROLE,
        hostname.as_deref(),
    );
    if *host == Some(LauncherHost::Indexed) {
        draft.label(REPLICA_INDEX_LABEL, "0");
    }
    pod_group::enlist(job, site, &mut draft);
    if host.is_some() {
        placement::place(job, site, &mut draft);
    }
    // Until it is told of others: an empty file is no script.
    if let Some(script) = identity::live_discovery(job, site, reach, Vec::new) {
        let annotations = object(&mut draft.metadata, "annotations");
        annotations.insert(DISCOVERY_ANNOTATION.to_owned(), script.into());
    }
    match reach {
        Reach::Provided { .. } => {}
        Reach::Exec { account, image } => exec::launch(job, site, account, image, &mut draft),
        Reach::Agent {
            login,
            image,
            gated,
            secret,
        } => {
            draft.variable(ROLE_VARIABLE, LAUNCHER_ROLE);
            hide_gpus(job, &mut draft);
            // The gate writes the lists, with addresses, so that nobody asks DNS. Lists that must follow
            // the pods are the ConfigMap's.
            draft.volume(match gated {
                true => json!({"name": CONFIG_VOLUME, "emptyDir": {}}),
                false => host_lists(job, login, &HostListSyntax::ALL),
            });
            draft.mount(CONFIG_VOLUME, CONFIG_MOUNT_PATH);
            if login.exec_script && gated {
                scripts(job, &mut draft);
            }
            agent::keys_of_launcher(secret, &mut draft);
            agent::launch(job, site, login, image, gated, &mut draft);
        }
        Reach::Ssh { login, gate } => {
            draft.without_token();
            draft.variable(ROLE_VARIABLE, LAUNCHER_ROLE);
            draft.ssh_key(job, login);
            let given = draft.variables();
            let set = |draft: &mut pod::Draft, way| {
                for (name, value) in mpi::ssh_variables(job, site, way) {
                    match in_other_words(job, &given, name) {
                        Some(entry) => draft.variable_entry(entry),
                        None => draft.variable(name, &value),
                    }
                }
            };
            set(&mut draft, OverSsh::First);
            hide_gpus(job, &mut draft);
            draft.volume(host_lists(job, login, &[]));
            draft.mount(CONFIG_VOLUME, CONFIG_MOUNT_PATH);
            set(&mut draft, OverSsh::Last);
            set(&mut draft, OverSsh::IfUnset);
            if let Some(image) = gate {
                agent::await_sshd(job, login, image, &mut draft);
            }
        }
    }
    draft
}

/// What the user says under another name of the same setting, which another version of the MPI reads.
fn in_other_words(job: &Job, given: &[Value], name: &str) -> Option<Value> {
    let names = mpi::other_names(job.mpi, name);
    let is_other = |entry: &&Value| names.iter().any(|other| entry["name"] == *other);
    let mut entry = given.iter().find(is_other)?.clone();
    entry["name"] = name.into();
    Some(entry)
}

/// Some container runtimes give every GPU of the node to a pod without these variables.
fn hide_gpus(job: &Job, draft: &mut pod::Draft) {
    if job.launcher.host.is_none() {
        draft.variable("NVIDIA_VISIBLE_DEVICES", "");
        draft.variable("NVIDIA_DRIVER_CAPABILITIES", "");
    }
}

/// What the launcher sees as `/etc/mpi`.
fn host_lists(job: &Job, login: &Login, more: &[HostListSyntax]) -> Value {
    let mut items = vec![json!({"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444})];
    if !job.elastic {
        items.push(json!({"key": DISCOVER_HOSTS, "path": DISCOVER_HOSTS, "mode": 0o555}));
    }
    if login.exec_script {
        items.push(json!({"key": EXEC_SCRIPT, "path": EXEC_SCRIPT, "mode": 0o555}));
    }
    let more = more.iter().map(|syntax| syntax.file());
    items.extend(more.map(|key| json!({"key": key, "path": key, "mode": 0o444})));
    let config = json!({"name": job.names.config, "items": items});
    if !job.elastic {
        return json!({"name": CONFIG_VOLUME, "configMap": config});
    }
    // The kubelet brings a changed annotation into the pod at once, and the lists of the ConfigMap with it.
    // By themselves these take up to a minute and a half.
    let path = format!("metadata.annotations['{DISCOVERY_ANNOTATION}']");
    let script = json!({"path": DISCOVER_HOSTS, "mode": 0o555, "fieldRef": {"fieldPath": path}});
    json!({
        "name": CONFIG_VOLUME,
        "projected": {"sources": [{"configMap": config}, {"downwardAPI": {"items": [script]}}]},
    })
}

/// The scripts as they were promised, among the lists that the gate writes.
fn scripts(job: &Job, draft: &mut pod::Draft) {
    let files = [EXEC_SCRIPT, DISCOVER_HOSTS];
    let items = files.map(|key| json!({"key": key, "path": key, "mode": 0o555}));
    let config = json!({"name": job.names.config, "items": items});
    draft.volume(json!({"name": SCRIPT_VOLUME, "configMap": config}));
    for file in files {
        draft.mount_file(SCRIPT_VOLUME, CONFIG_MOUNT_PATH, file);
    }
}

/// The part of the launcher's template that decides where its pods may run.
pub(crate) fn directives(job: &Job, site: &Site, reach: Reach<'_>) -> Directives {
    let template = template(job, site, reach);
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

/// What the user's own annotations of the launcher take.
pub(crate) fn own_annotations_bytes(job: &Job) -> usize {
    let annotations = job.launcher.role.template["metadata"]["annotations"].as_object();
    let bytes = |(name, text): (&String, &Value)| name.len() + text.as_str().map_or(0, str::len);
    annotations.into_iter().flat_map(Map::iter).map(bytes).sum()
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
