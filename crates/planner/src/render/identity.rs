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

/// Beyond so many workers, a ConfigMap holds no lists that only people would read: they would be most of
/// what the job costs.
const UNREAD_LISTS_WORKERS_MAX: u32 = 1000;

/// More than the script takes that a launcher was promised.
const EXEC_SCRIPT_BYTES: usize = 256;

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
    let workers = job.worker_count();
    let suffix = hostfile::suffix(job, site, reach, lists_max(reach), workers);
    let lists = host_lists(job, reach, workers).into_iter();
    let lists = lists.map(|(file, syntax)| (file, hostfile::hostfile(job, &suffix, syntax)));
    let scripts = |login: &Login, shell: &str| {
        let discovery = discovery(job, site, reach, login, discovered());
        let promised = (EXEC_SCRIPT, format!("#!/bin/sh\nexec {shell} \"$@\"\n"));
        let promised = login.exec_script.then_some(promised);
        [(DISCOVER_HOSTS, discovery)].into_iter().chain(promised)
    };
    let files: Vec<(&str, String)> = match reach {
        Reach::Provided { provided, .. } => return provided.files.clone(),
        Reach::Exec { .. } => lists.chain([(EXEC_SCRIPT, exec::script())]).collect(),
        Reach::Ssh { login, .. } => lists.chain(scripts(login, "ssh")).collect(),
        Reach::Agent { login, .. } => lists.chain(scripts(login, AGENT_SHIM)).collect(),
    };
    let files = files.into_iter();
    files.map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The discovery script, of these workers.
fn discovery(
    job: &Job,
    site: &Site,
    reach: Reach<'_>,
    login: &Login,
    discovered: Vec<String>,
) -> String {
    let suffix = hostfile::suffix(job, site, reach, lists_max(reach), job.worker_count());
    hostfile::discover_hosts(job, &suffix, login.discovery_has_slots, discovered)
}

/// The script that an elastic program reads while it runs, of these workers. Others read the one in the
/// ConfigMap, or the gate's.
pub(crate) fn live_discovery(
    job: &Job,
    site: &Site,
    reach: Reach<'_>,
    discovered: impl FnOnce() -> Vec<String>,
) -> Option<String> {
    let login = reach.login().filter(|_| job.elastic)?;
    Some(discovery(job, site, reach, login, discovered()))
}

/// What it takes with so many workers, a little more at most.
pub(crate) fn live_discovery_bytes(
    job: &Job,
    site: &Site,
    reach: Reach<'_>,
    workers: u32,
) -> usize {
    let Some(login) = reach.login().filter(|_| job.elastic) else {
        return 0;
    };
    let suffix = hostfile::suffix(job, site, reach, lists_max(reach), workers);
    hostfile::discover_hosts_bytes(job, &suffix, login.discovery_has_slots, workers)
}

/// What the files take with so many workers, a little more at most, without writing them.
pub(crate) fn config_bytes(job: &Job, site: &Site, reach: Reach<'_>, workers: u32) -> usize {
    let suffix = hostfile::suffix(job, site, reach, lists_max(reach), workers);
    let lists = host_lists(job, reach, workers).into_iter();
    let lists = lists.map(|(_, syntax)| hostfile::hostfile_bytes(job, &suffix, syntax, workers));
    let scripts = match reach {
        // They were made for the number of workers that the job has.
        Reach::Provided { provided, .. } => {
            let bytes: usize = provided.files.values().map(String::len).sum();
            bytes * workers as usize / job.worker_count().max(1) as usize
        }
        Reach::Exec { .. } => exec::script().len(),
        Reach::Ssh { login, .. } | Reach::Agent { login, .. } => {
            let has_slots = login.discovery_has_slots;
            hostfile::discover_hosts_bytes(job, &suffix, has_slots, workers) + EXEC_SCRIPT_BYTES
        }
    };
    lists.sum::<usize>() + scripts
}

/// The files with host lists, and how these are spelled.
fn host_lists(job: &Job, reach: Reach<'_>, workers: u32) -> Vec<(&'static str, HostListSyntax)> {
    let own = (HOSTFILE, job.mpi.host_list());
    match reach {
        Reach::Provided { .. } => Vec::new(),
        Reach::Ssh { .. } | Reach::Exec { .. } => vec![own],
        // The gate writes the lists. They are here for people, as long as they are not in the way.
        Reach::Agent { gated: true, .. } if workers > UNREAD_LISTS_WORKERS_MAX => Vec::new(),
        Reach::Agent { .. } => {
            let all = HostListSyntax::ALL.map(|syntax| (syntax.file(), syntax));
            [own].into_iter().chain(all).collect()
        }
    }
}

/// How many host lists there may be.
fn lists_max(reach: Reach<'_>) -> usize {
    match reach {
        Reach::Agent { .. } => 1 + HostListSyntax::ALL.len(),
        Reach::Ssh { .. } | Reach::Exec { .. } | Reach::Provided { .. } => 1,
    }
}

/// The workers in the discovery script. It follows the pods of an elastic job only: for all others it
/// would be rewritten once per pod and never read.
pub(crate) fn discoverable(observed: &Observed) -> Vec<String> {
    if !observed.job.elastic {
        return observed.job.worker_names().collect();
    }
    // A worker that is about to go is none any more, however long it takes to end.
    let stays = |pod: &&Pod| {
        let index = observed.job.worker_index(&pod.name);
        let asked_for = index.is_none_or(|index| index < observed.job.worker_count());
        pod.phase == PodPhase::Running && !pod.deleting && asked_for
    };
    let pods = observed.workers.iter().filter(stays);
    pods.map(|pod| pod.name.clone()).collect()
}

/// The Secret for the keys, still without them.
pub(crate) fn key(job: &Job, name: &str, keys: &Keys) -> Object {
    let kind = match keys {
        Keys::SshPair => "kubernetes.io/ssh-auth",
        Keys::Agent { .. } => "Opaque",
    };
    let body = json!({"type": kind});
    child(job, Kind::Secret, "v1", name, body)
}
