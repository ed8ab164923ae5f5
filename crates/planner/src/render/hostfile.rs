//! The host list and the host discovery script, as text.

use contract::mpi::HostListSyntax;

use crate::job::{HostNames, Job};
use crate::site::Site;

/// The name by which hosts know a pod of the job.
pub(crate) fn host(job: &Job, site: &Site, pod: &str) -> String {
    if job.host_names() == HostNames::Pods {
        return pod.to_owned();
    }
    let base = format!("{pod}.{}.{}.svc", job.names.service, job.owner.namespace);
    if site.cluster_domain.is_empty() {
        base
    } else {
        format!("{base}.{}", site.cluster_domain)
    }
}

/// One line for each host that was asked for, whatever runs now.
pub(crate) fn hostfile(job: &Job, site: &Site, syntax: HostListSyntax) -> String {
    launcher(job)
        .chain(job.worker_names())
        .map(|pod| syntax.line(&host(job, site, &pod), job.slots as usize))
        .collect()
}

/// A script that prints one host a line: the launcher if it is one, then these workers in the
/// order of their names.
pub(crate) fn discover_hosts(
    job: &Job,
    site: &Site,
    has_slots: bool,
    mut workers: Vec<String>,
) -> String {
    workers.sort();
    let lines = launcher(job)
        .chain(workers)
        .map(|pod| (host(job, site, &pod), job.slots))
        .map(|(host, slots)| match has_slots {
            true => format!("echo {host}:{slots}\n"),
            false => format!("echo {host}\n"),
        })
        .collect::<String>();
    format!("#!/bin/sh\n{lines}")
}

/// The launcher, if it takes ranks.
fn launcher(job: &Job) -> impl Iterator<Item = String> {
    let host = job.launcher.host;
    host.map(|_| job.names.launcher.clone()).into_iter()
}
