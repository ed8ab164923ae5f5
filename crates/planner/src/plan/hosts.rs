//! Policy: the launcher is told where its workers are, by one annotation that the kubelet carries
//! into the pod as a file. Names need not resolve for that, and the file follows a worker that was
//! replaced.

use contract::files::WORKERS_LINE;
use contract::labels::HOSTS_ANNOTATION;
use contract::protocol::AGENT_PORT;
use serde_json::json;

use super::pods;
use crate::action::{Action, Kind};
use crate::job::Job;
use crate::observed::{Observed, Pod, PodPhase};
use crate::render::agent;
use crate::site::{Site, Transport};

/// One patch for each live launcher pod that does not have the list as it is now.
pub(super) fn tell(observed: &Observed) -> Vec<Action> {
    let (job, site) = (&observed.job, &observed.site);
    match job.transport(site) {
        Transport::Ssh if job.gate(site).is_none() => return Vec::new(),
        // The API server knows where they are.
        Transport::Exec => return Vec::new(),
        Transport::Ssh | Transport::Agent => {}
    }
    let Some(hosts) = list(observed) else {
        return Vec::new();
    };
    let live = |pod: &&Pod| !pod.phase.is_over() && !pod.deleting && pod.hosts != hosts;
    let merge = json!({"metadata": {"annotations": {(HOSTS_ANNOTATION): hosts}}});
    let pods = observed.launcher_pods.iter().filter(live);
    pods.map(|pod| Action::patch(Kind::Pod, &pod.name, &pod.uid, merge.clone()))
        .collect()
}

/// How many workers there should be, and where each is; nothing as long as one is nowhere, unless the
/// program takes them as they come.
fn list(observed: &Observed) -> Option<String> {
    let (job, site) = (&observed.job, &observed.site);
    let mut lines = Vec::new();
    for pod in pods::workers(observed).filter(|pod| is_there(job, site, pod)) {
        let index = job.worker_index(&pod.name)?;
        lines.push((index, line(job, site, index, pod)));
    }
    lines.sort();
    let complete = lines.len() == job.worker_count() as usize;
    let lines: String = lines.into_iter().map(|(_, line)| line).collect();
    let whole = format!("{WORKERS_LINE}{}\n{lines}", job.worker_count());
    (complete || job.elastic).then_some(whole)
}

/// Where init containers still run, a pod has an address long before it can have an sshd.
fn is_there(job: &Job, site: &Site, pod: &Pod) -> bool {
    let started = pod.phase == PodPhase::Running || job.transport(site) == Transport::Agent;
    !pod.address.is_empty() && !pod.phase.is_over() && started
}

fn line(job: &Job, site: &Site, index: u32, pod: &Pod) -> String {
    // A name that resolves to the node's address, as those of workers on its network do, would be
    // taken for the launcher's own host if that is on the same node. Plain names do not resolve.
    let (name, address) = (&pod.name, &pod.address);
    match (job.transport(site), agent::port(job, index)) {
        (Transport::Ssh | Transport::Exec, _) | (Transport::Agent, AGENT_PORT) => {
            format!("{name} {address}\n")
        }
        (Transport::Agent, port) if address.contains(':') => {
            format!("{name} [{address}]:{port}\n")
        }
        (Transport::Agent, port) => format!("{name} {address}:{port}\n"),
    }
}
