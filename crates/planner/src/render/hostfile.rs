//! The host list and the host discovery script, as text. Decides how hosts are spelled: fully where
//! that fits, and shorter in jobs with so many workers that a ConfigMap could not hold their names.

use std::ops::Range;

use contract::mpi::HostListSyntax;

use crate::job::{HostNames, Job};
use crate::reach::Reach;
use crate::site::Site;

/// Host lists of one ConfigMap that together are longer spell their hosts shorter.
const LISTS_BYTES_MAX: usize = 768 * 1024;
/// A discovery script that is longer counts instead of listing.
const SCRIPT_BYTES_MAX: usize = 64 * 1024;

/// The name by which hosts know a pod of the job.
pub(crate) fn host(job: &Job, site: &Site, pod: &str) -> String {
    format!("{pod}{}", full_suffix(job, site))
}

/// What follows a pod's name in the lists of this job, of which its ConfigMap has so many.
pub(crate) fn suffix(job: &Job, site: &Site, reach: Reach<'_>, lists: usize) -> String {
    let full = full_suffix(job, site);
    let (workers, name) = (
        job.worker_count() as usize,
        job.worker_name(job.worker_count()),
    );
    let bytes = lists * workers * (name.len() + full.len() + " slots=1\n".len());
    if bytes <= LISTS_BYTES_MAX || job.host_names() == HostNames::Pods {
        return full;
    }
    match reach {
        // The agent knows its workers by the first label, and nobody asks DNS.
        Reach::Agent { .. } => String::new(),
        // Resolvers of pods complete it with the namespace first.
        Reach::Ssh { .. } | Reach::Exec { .. } | Reach::Provided { .. } => {
            format!(".{}", job.names.service)
        }
    }
}

fn full_suffix(job: &Job, site: &Site) -> String {
    if job.host_names() == HostNames::Pods {
        return String::new();
    }
    let base = format!(".{}.{}.svc", job.names.service, job.owner.namespace);
    if site.cluster_domain.is_empty() {
        base
    } else {
        format!("{base}.{}", site.cluster_domain)
    }
}

/// One line for each host that was asked for, whatever runs now.
pub(crate) fn hostfile(job: &Job, suffix: &str, syntax: HostListSyntax) -> String {
    launcher(job)
        .chain(job.worker_names())
        .map(|pod| syntax.line(&format!("{pod}{suffix}"), job.slots as usize))
        .collect()
}

/// A script that prints one host a line: the launcher if it is one, then these workers in the
/// order of their names.
pub(crate) fn discover_hosts(
    job: &Job,
    suffix: &str,
    has_slots: bool,
    mut workers: Vec<String>,
) -> String {
    let suffix = match has_slots {
        true => format!("{suffix}:{}", job.slots),
        false => suffix.to_owned(),
    };
    let line = |pod: String| format!("echo {pod}{suffix}\n");
    let first: String = launcher(job).map(line).collect();
    let bytes: usize = workers.iter().map(|pod| pod.len() + suffix.len()).sum();
    if bytes > SCRIPT_BYTES_MAX {
        let indices = workers.iter().filter_map(|pod| job.worker_index(pod));
        return counting_script(job, &first, &suffix, indices.collect());
    }
    workers.sort();
    let lines: String = workers.into_iter().map(line).collect();
    format!("#!/bin/sh\n{first}{lines}")
}

/// A script that says the same of many workers in few words, in the order of their numbers.
fn counting_script(job: &Job, first: &str, suffix: &str, mut indices: Vec<u32>) -> String {
    indices.sort_unstable();
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some(range) if range.end == index => range.end += 1,
            _ => ranges.push(index..index + 1),
        }
    }
    let ranges = ranges
        .iter()
        .map(|range| format!("hosts {} {}\n", range.start, range.end));
    let (prefix, ranges) = (&job.names.worker, ranges.collect::<String>());
    format!(
        "#!/bin/sh\n\
         hosts() {{ i=$1; while [ \"$i\" -lt \"$2\" ]; do echo \"{prefix}-$i{suffix}\"; i=$((i + 1)); done; }}\n\
         {first}{ranges}"
    )
}

/// The launcher, if it takes ranks.
fn launcher(job: &Job) -> impl Iterator<Item = String> {
    let host = job.launcher.host;
    host.map(|_| job.names.launcher.clone()).into_iter()
}
