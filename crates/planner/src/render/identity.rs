//! Service, ConfigMap and key Secret: what gives the pods their names, host list and key.

use std::collections::BTreeMap;

use contract::files::{AGENT_SHIM, DISCOVER_HOSTS, EXEC_SCRIPT, HOSTFILE};
use contract::labels::{JOB_NAME_LABEL, JOB_UID_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL};
use contract::mpi::HostListSyntax;
use serde_json::json;

use super::{child, exec, hostfile};
use crate::action::{Kind, Object};
use crate::job::{Job, Login};
use crate::keys::Keys;
use crate::observed::{Observed, Pod, PodPhase};
use crate::reach::Reach;
use crate::site::Site;

/// Beyond so many workers, a ConfigMap holds no lists that only people would read.
const UNREAD_LISTS_WORKERS_MAX: u32 = 1000;

/// The headless Service that names the pods.
pub(crate) fn service(observed: &Observed, reach: Reach<'_>) -> Object {
    let job = &observed.job;
    let mut body = json!({"spec": {
        "clusterIP": "None",
        "selector": service_selector(observed, reach),
        "publishNotReadyAddresses": publish_not_ready(job),
    }});
    if let Reach::Provided { provided, .. } = reach {
        let port = |(name, port): (&String, &u16)| json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"});
        body["spec"]["ports"] = provided.ports.iter().map(port).collect();
    }
    child(job, Kind::Service, "v1", &job.names.service, body)
}

/// Launcher and workers alike. By the job's UID too, because a name is reused and other people's pods
/// may have it in a label; but not while the job has pods of another operator, which lack the UID and
/// must keep their names.
pub(crate) fn service_selector(observed: &Observed, reach: Reach<'_>) -> BTreeMap<String, String> {
    let owner = &observed.job.owner;
    let mut selector = match reach {
        Reach::Provided { provided, .. } => provided.selector.clone(),
        Reach::Ssh { .. } | Reach::Agent { .. } | Reach::Exec { .. } => BTreeMap::from([
            (OPERATOR_NAME_LABEL.to_owned(), OPERATOR_NAME.to_owned()),
            (JOB_NAME_LABEL.to_owned(), owner.name.clone()),
        ]),
    };
    if !has_unlabelled_pods(observed) {
        selector.insert(JOB_UID_LABEL.to_owned(), owner.uid.clone());
    }
    selector
}

fn has_unlabelled_pods(observed: &Observed) -> bool {
    let uid = &observed.job.owner.uid;
    let launcher = observed.launcher.ours();
    let launcher = launcher.map(|launcher| launcher.directives.labels.get(JOB_UID_LABEL));
    let is_labelled = launcher.is_none_or(|label| label == Some(uid));
    !is_labelled || observed.workers.iter().any(|pod| !pod.labelled)
}

/// A launcher that is a host must resolve before it is Ready, or it could not reach itself.
pub(crate) fn publish_not_ready(job: &Job) -> bool {
    job.launcher.host.is_some()
}

/// The ConfigMap with the host list.
pub(crate) fn config(observed: &Observed, reach: Reach<'_>) -> Object {
    let job = &observed.job;
    let data = config_data(job, &observed.site, reach, || discoverable(observed));
    let body = json!({"data": data});
    child(job, Kind::ConfigMap, "v1", &job.names.config, body)
}

/// The files; the script discovers these workers.
pub(crate) fn config_data(
    job: &Job,
    site: &Site,
    reach: Reach<'_>,
    discovered: impl Fn() -> Vec<String>,
) -> BTreeMap<String, String> {
    let lists = match reach {
        Reach::Agent { .. } => 1 + HostListSyntax::ALL.len(),
        Reach::Ssh { .. } | Reach::Exec { .. } | Reach::Provided { .. } => 1,
    };
    let suffix = hostfile::suffix(job, site, reach, lists);
    let list = |syntax| hostfile::hostfile(job, &suffix, syntax);
    let hostfile = (HOSTFILE, list(job.mpi.host_list()));
    let discovery = |login: &Login| {
        let has_slots = login.discovery_has_slots;
        let script = hostfile::discover_hosts(job, &suffix, has_slots, discovered());
        (DISCOVER_HOSTS, script)
    };
    let promised = |login: &Login, shell: &str| {
        let script = (EXEC_SCRIPT, format!("#!/bin/sh\nexec {shell} \"$@\"\n"));
        login.exec_script.then_some(script)
    };
    let files: Vec<(&str, String)> = match reach {
        Reach::Provided { provided, .. } => return provided.files.clone(),
        Reach::Exec { .. } => vec![hostfile, (EXEC_SCRIPT, exec::script())],
        Reach::Ssh { login, .. } => [hostfile, discovery(login)]
            .into_iter()
            .chain(promised(login, "ssh"))
            .collect(),
        // The gate writes the lists. They are here for people, as long as they are not in the way.
        Reach::Agent {
            login, gated: true, ..
        } if is_long(job) => [discovery(login)]
            .into_iter()
            .chain(promised(login, AGENT_SHIM))
            .collect(),
        Reach::Agent { login, .. } => [hostfile, discovery(login)]
            .into_iter()
            .chain(HostListSyntax::ALL.map(|syntax| (syntax.file(), list(syntax))))
            .chain(promised(login, AGENT_SHIM))
            .collect(),
    };
    let files = files.into_iter();
    files.map(|(name, text)| (name.to_owned(), text)).collect()
}

/// Lists that nobody reads would be most of what the job costs.
fn is_long(job: &Job) -> bool {
    job.worker_count() > UNREAD_LISTS_WORKERS_MAX
}

/// The workers in the discovery script. It follows the pods of an elastic job only: for all others it
/// would be rewritten once per pod and never read.
pub(crate) fn discoverable(observed: &Observed) -> Vec<String> {
    if !observed.job.elastic {
        return observed.job.worker_names().collect();
    }
    let running = |pod: &&Pod| pod.phase == PodPhase::Running;
    let pods = observed.workers.iter().filter(running);
    pods.map(|pod| pod.name.clone()).collect()
}

/// The Secret for the keys, still without them.
pub(crate) fn key(job: &Job, name: &str, keys: &Keys) -> Object {
    let kind = match keys {
        Keys::SshPair => "kubernetes.io/ssh-auth",
        Keys::Agent { .. } => "Opaque",
    };
    child(job, Kind::Secret, "v1", name, json!({"type": kind}))
}
