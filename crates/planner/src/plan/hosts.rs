//! Policy: the launcher is told where its workers are, by one annotation that the kubelet carries
//! into the pod as a file. Names need not resolve for that, and the file follows a worker that was
//! replaced. The launcher of an elastic job gets its discovery script in the same way.

use contract::host_list::{self, ENDED_WORKER, ListedWorker};
use contract::labels::{DISCOVERY_ANNOTATION, HOSTS_ANNOTATION};
use contract::protocol::AGENT_PORT;
use serde_json::{Map, Value, json};

use super::{pods, retry};
use crate::action::{Action, Kind};
use crate::fingerprint::Fingerprint;
use crate::observed::{Observed, Pod, PodPhase};
use crate::reach::Reach;
use crate::render::identity;
use crate::worker_batch::WorkerNaming;

/// Whoever waits for all workers gives up when one has ended; lines of many would not fit.
const ENDED_LISTED_MAX: usize = 64;

/// One patch for each live launcher pod that does not have the lists as they are now.
pub(super) fn publish(observed: &Observed, reach: Reach<'_>) -> Vec<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let hosts = hosts(observed, reach).map(|list| Told::of(HOSTS_ANNOTATION, list));
    let discovered = || identity::discoverable(observed);
    let script = identity::live_discovery(job, site, reach, discovered);
    let script = script.map(|script| Told::of(DISCOVERY_ANNOTATION, script));

    let live = |pod: &&Pod| !pod.phase.is_over() && !pod.deleting;
    let pods = observed.launcher_pods.iter().filter(live);
    pods.filter_map(|pod| {
        let hosts = hosts.iter().filter(|list| list.print != pod.hosts);
        let script = script.iter().filter(|list| list.print != pod.discovery);
        let news = hosts.chain(script);
        let news: Map<String, Value> = news.map(Told::annotation).collect();
        let merge = json!({"metadata": {"annotations": news}});
        (!news.is_empty()).then(|| Action::patch(Kind::Pod, &pod.name, &pod.uid, merge))
    })
    .collect()
}

/// What an annotation is to say.
struct Told {
    annotation: &'static str,
    text: String,
    print: Fingerprint,
}

impl Told {
    fn of(annotation: &'static str, text: String) -> Self {
        let print = Fingerprint::of(&text);
        Self {
            annotation,
            text,
            print,
        }
    }

    fn annotation(&self) -> (String, Value) {
        (self.annotation.to_owned(), self.text.as_str().into())
    }
}

/// The list of workers, where somebody reads it.
fn hosts(observed: &Observed, reach: Reach<'_>) -> Option<String> {
    match reach {
        Reach::Agent { .. } => list(observed, true),
        Reach::Ssh { gate: Some(_), .. } => list(observed, false),
        // The API server knows where they are, or the user's templates do.
        Reach::Ssh { gate: None, .. } | Reach::Exec { .. } | Reach::Provided { .. } => None,
    }
}

/// How many workers there should be, and where each is, or that it ended; nothing as long as one is
/// nowhere, unless the program takes them as they come.
fn list(observed: &Observed, by_agent: bool) -> Option<String> {
    let job = &observed.job;
    let naming = WorkerNaming::of(job);
    let (mut listed, mut ended) = (Vec::new(), 0);
    // A name that resolves to the node's address, as those of workers on its network do, would be
    // taken for the launcher's own host if that is on the same node. Plain names do not resolve.
    for pod in pods::workers(observed) {
        let index = job.worker_index(&pod.name)?;
        if has_started(by_agent, pod) {
            let (address, port) = (pod.address.as_str(), Some(naming.port(index)));
            listed.push(ListedWorker {
                index,
                address,
                port: port.filter(|port| by_agent && *port != AGENT_PORT),
            });
        } else if has_ended(observed, pod) {
            ended += 1;
            if ended <= ENDED_LISTED_MAX {
                listed.push(ListedWorker {
                    index,
                    address: ENDED_WORKER,
                    port: None,
                });
            }
        }
    }
    listed.sort_by_key(|worker| worker.index);
    let unlisted = ended.saturating_sub(ENDED_LISTED_MAX);
    let is_complete = listed.len() + unlisted == job.worker_count() as usize;
    let prefix = format!("{}-", job.names.worker);
    (is_complete || job.elastic).then(|| host_list::write(job.worker_count(), &prefix, &listed))
}

/// Where init containers still run, a pod has an address long before it can have an sshd.
fn has_started(by_agent: bool, pod: &Pod) -> bool {
    let started = pod.phase == PodPhase::Running || by_agent;
    !pod.address.is_empty() && !pod.phase.is_over() && started
}

/// A launcher that is started again must not wait for it. An elastic program goes on with the others.
fn has_ended(observed: &Observed, pod: &Pod) -> bool {
    pod.phase.is_over() && !retry::is_replaced(observed, pod) && !observed.job.elastic
}
