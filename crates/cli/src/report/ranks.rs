//! Which ranks are on which host. Decides how ranks are numbered when nobody has counted them: host after host
//! in the order of the host list, as Open MPI and Hydra do without further options.

use contract::agent_report::AgentReport;
use planner::Job;
use serde::Serialize;
use serde_json::Value;

use crate::manifest;
use crate::view::{launcher, workers};

/// A host of the ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Host {
    pub(crate) host: String,
    pub(crate) node: String,
    pub(crate) slots: u32,
    /// The ranks that fill its slots.
    pub(crate) first_rank: u64,
    pub(crate) last_rank: u64,
    /// How many the agent saw there, where it is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counted: Option<u32>,
}

/// The hosts in the order of the host list. Their names follow from the job, so they are known when the pods
/// have gone; their nodes are not.
pub(super) fn hosts(job: &Value, pods: &[Value], census: Option<&AgentReport>) -> Vec<Host> {
    let Some(Ok(lowered)) = manifest::lower(job) else {
        return Vec::new();
    };
    let slots = lowered.slots.max(1);
    let nodes: std::collections::BTreeMap<&str, &str> = workers(pods)
        .into_iter()
        .map(|pod| (pod.name(), pod.node()))
        .collect();
    let mut first_rank = 0;
    let hosts = names(&lowered, pods).map(|host| {
        let first = first_rank;
        first_rank += u64::from(slots);
        let is_short = |name: &str| name.split('.').next() == Some(host.as_str());
        let counted = census.and_then(|census| {
            let ranks = &census.ranks_per_host;
            let long = || {
                ranks
                    .iter()
                    .find(|(name, _)| is_short(name))
                    .map(|(_, count)| count)
            };
            ranks.get(&host).or_else(long).copied()
        });
        let of_launcher = || launcher(pods).filter(|pod| pod.name() == host);
        let node = nodes.get(host.as_str()).copied();
        let node = node.or_else(|| of_launcher().map(|pod| pod.node()));
        Host {
            node: node.unwrap_or_default().to_owned(),
            slots,
            first_rank: first,
            last_rank: first_rank - 1,
            counted,
            host,
        }
    });
    hosts.collect()
}

fn names<'j>(job: &'j Job, pods: &[Value]) -> impl Iterator<Item = String> + use<'j> {
    let of_launcher = job.launcher.host.is_some().then(|| {
        let pod = launcher(pods).map(|pod| pod.name().to_owned());
        pod.unwrap_or_else(|| job.names.launcher.clone())
    });
    of_launcher.into_iter().chain(job.worker_names())
}
