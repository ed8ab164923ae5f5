//! The host list and the host discovery script, as text.

use contract::mpi::HostListSyntax;

use crate::job::{HostNames, Job};
use crate::site::Site;

/// The name by which hosts know a pod of the job.
pub(crate) fn host(job: &Job, site: &Site, pod: &str) -> String {
    if job.host_names == HostNames::Pods {
        return pod.to_owned();
    }
    let base = format!("{pod}.{}.{}.svc", job.service_name(), job.owner.namespace);
    if site.cluster_domain.is_empty() {
        base
    } else {
        format!("{base}.{}", site.cluster_domain)
    }
}

/// One line for each host that was asked for, whatever runs now.
pub(crate) fn hostfile(job: &Job, site: &Site, syntax: HostListSyntax) -> String {
    let launcher = job.launcher_is_host.then(|| job.launcher_name());
    let workers = (0..job.worker_count()).map(|index| job.worker_name(index));
    launcher
        .into_iter()
        .chain(workers)
        .map(|pod| syntax.line(&host(job, site, &pod), job.slots as usize))
        .collect()
}

/// A script that prints one host a line: the launcher if it is one, then these workers in the
/// order of their names.
pub(crate) fn discover_hosts(job: &Job, site: &Site, mut workers: Vec<String>) -> String {
    workers.sort();
    let launcher = job.launcher_is_host.then(|| job.launcher_name());
    let lines = launcher
        .into_iter()
        .chain(workers)
        .map(|pod| (host(job, site, &pod), job.slots))
        .map(|(host, slots)| match job.discovery_tells_slots {
            true => format!("echo {host}:{slots}\n"),
            false => format!("echo {host}\n"),
        })
        .collect::<String>();
    format!("#!/bin/sh\n{lines}")
}
