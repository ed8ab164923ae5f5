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
use crate::reach::Reach;
use crate::render::agent;

/// One patch for each live launcher pod that does not have the list as it is now.
pub(super) fn publish(observed: &Observed, reach: Reach<'_>) -> Vec<Action> {
    let by_agent = match reach {
        Reach::Agent { .. } => true,
        Reach::Ssh { gate: Some(_), .. } => false,
        // Nobody reads it: the API server knows where they are, or the user's templates do.
        Reach::Ssh { gate: None, .. } | Reach::Exec { .. } | Reach::Provided { .. } => {
            return Vec::new();
        }
    };
    let Some(hosts) = list(observed, by_agent) else {
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
fn list(observed: &Observed, by_agent: bool) -> Option<String> {
    let job = &observed.job;
    let mut lines = Vec::new();
    for pod in pods::workers(observed).filter(|pod| has_started(by_agent, pod)) {
        let index = job.worker_index(&pod.name)?;
        lines.push((index, line(job, by_agent, index, pod)));
    }
    lines.sort();
    let complete = lines.len() == job.worker_count() as usize;
    let lines: String = lines.into_iter().map(|(_, line)| line).collect();
    let whole = format!("{WORKERS_LINE}{}\n{lines}", job.worker_count());
    (complete || job.elastic).then_some(whole)
}

/// Where init containers still run, a pod has an address long before it can have an sshd.
fn has_started(by_agent: bool, pod: &Pod) -> bool {
    let started = pod.phase == PodPhase::Running || by_agent;
    !pod.address.is_empty() && !pod.phase.is_over() && started
}

fn line(job: &Job, by_agent: bool, index: u32, pod: &Pod) -> String {
    // A name that resolves to the node's address, as those of workers on its network do, would be
    // taken for the launcher's own host if that is on the same node. Plain names do not resolve.
    let (name, address) = (&pod.name, &pod.address);
    match agent::port(job, index) {
        port if !by_agent || port == AGENT_PORT => format!("{name} {address}\n"),
        port if address.contains(':') => format!("{name} [{address}]:{port}\n"),
        port => format!("{name} {address}:{port}\n"),
    }
}
