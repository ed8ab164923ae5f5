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

/// What follows a pod's name in the lists of a job with so many workers, of which its ConfigMap has
/// `lists`.
pub(crate) fn suffix(
    job: &Job,
    site: &Site,
    reach: Reach<'_>,
    lists: usize,
    workers: u32,
) -> String {
    let full = full_suffix(job, site);
    let name = job.worker_name(workers);
    let bytes = lists * workers as usize * (name.len() + full.len() + " slots=1\n".len());
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

/// What it takes with so many workers.
pub(crate) fn hostfile_bytes(
    job: &Job,
    suffix: &str,
    syntax: HostListSyntax,
    workers: u32,
) -> usize {
    let rest = syntax.line(suffix, job.slots as usize).len();
    let first = launcher(job).map(|pod| pod.len() + rest).sum::<usize>();
    first + names_bytes(job, workers) + workers as usize * rest
}

/// What the names of so many workers take.
fn names_bytes(job: &Job, workers: u32) -> usize {
    let tens = (1..10).map(|power| 10_u32.pow(power));
    let more_digits: u32 = tens.map(|ten| workers.saturating_sub(ten)).sum();
    workers as usize * (job.names.worker.len() + "-0".len()) + more_digits as usize
}

/// A script that prints one host a line: the launcher if it is one, then these workers in the
/// order of their names.
pub(crate) fn discover_hosts(
    job: &Job,
    suffix: &str,
    has_slots: bool,
    mut workers: Vec<String>,
) -> String {
    let suffix = with_slots(job, suffix, has_slots);
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

/// What it takes with so many workers, a little more at most: an elastic job has them with gaps.
pub(crate) fn discover_hosts_bytes(
    job: &Job,
    suffix: &str,
    has_slots: bool,
    workers: u32,
) -> usize {
    let (suffix, count) = (with_slots(job, suffix, has_slots), workers as usize);
    let echo = "echo \n".len();
    let first = launcher(job).map(|pod| echo + pod.len() + suffix.len());
    let names = names_bytes(job, workers) + count * suffix.len();
    let listed = names.min(SCRIPT_BYTES_MAX) + count * echo;
    let counted = || counting_script(job, "", &suffix, vec![workers]).len();
    let gaps = count.div_ceil(2) * "hosts 4294967295 4294967295\n".len();
    let bytes = match (names > SCRIPT_BYTES_MAX, job.elastic) {
        (true, true) => listed.max(counted() + gaps),
        (true, false) => counted(),
        (false, _) => listed + "#!/bin/sh\n".len(),
    };
    first.sum::<usize>() + bytes
}

fn with_slots(job: &Job, suffix: &str, has_slots: bool) -> String {
    match has_slots {
        true => format!("{suffix}:{}", job.slots),
        false => suffix.to_owned(),
    }
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
