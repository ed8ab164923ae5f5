//! Two jobs that do not fit together, whoever schedules them as gangs: they run one after the other, and
//! neither ever holds a part of the room that the other waits for. Must not know any gang scheduler.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::ClusterFixture;
use super::pi::{Mpi, User, pi};
use super::watch::Seen;
use crate::jobs::MpiJob;

const WORKERS: u32 = 6;
/// Places on the nodes, eight in all: enough for one job, and not for two.
const PLACES: [(&str, &str); 3] = [("node1", "3"), ("node2", "3"), ("node3", "2")];
/// How often the jobs compete: `MUSTER_GANG_ROUNDS`, or this often.
const ROUNDS: u32 = 2;
/// Twelve pods start and two jobs run, while other tests do the same.
const ROUND_MAX: Duration = Duration::from_secs(300);

/// Lets two such jobs compete again and again. Each round, both must end well.
pub fn compete(fixture: &ClusterFixture, in_gang: impl Fn(MpiJob) -> MpiJob) -> Result<()> {
    let place = format!("{}.muster.test/place", fixture.namespace);
    for (node, places) in PLACES {
        let capacity = json!({"status": {"capacity": {(place.as_str()): places}}});
        let patch = capacity.to_string();
        let args = ["patch", "node", node, "--subresource=status"];
        let args = [&args[..], &["--type=merge", "--patch", &patch]].concat();
        fixture.cluster.kubectl(&args)?;
    }
    let rounds = match std::env::var("MUSTER_GANG_ROUNDS") {
        Ok(number) => number.parse()?,
        Err(_) => ROUNDS,
    };
    for round in 0..rounds {
        let names = [format!("a{round}"), format!("b{round}")];
        let resources = json!({"limits": {(place.as_str()): "1"}});
        let mut jobs = Vec::new();
        for name in &names {
            let worker = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources";
            let job = pi(Mpi::OpenMpi4, User::Root, WORKERS);
            let job = job.with("/metadata/name", name.as_str());
            jobs.push(fixture.submit(&in_gang(job.with(worker, resources.clone())))?);
        }
        in_turn(fixture, &names)?;
        for job in &jobs {
            job.succeeded_on_workers(WORKERS)?;
            job.delete()?;
        }
    }
    Ok(())
}

/// Watches until both launchers have ended well. Never may both jobs hold places.
fn in_turn(fixture: &ClusterFixture, names: &[String; 2]) -> Result<()> {
    let mut held = BTreeSet::new();
    fixture.watch("both jobs", &["pods"], ROUND_MAX, |seen| {
        let holding = names.each_ref().map(|name| bound(seen, name));
        if holding.iter().all(|count| *count > 0) {
            bail!("both jobs hold places: {holding:?}");
        }
        held.extend(holding);
        let ended = |name: &String| {
            let mut pods = of(seen, name, "launcher");
            pods.any(|pod| pod["status"]["phase"] == "Succeeded")
        };
        Ok(names.iter().all(ended).then_some(()))
    })?;
    ensure!(held.contains(&(WORKERS as usize)), "{held:?}");
    Ok(())
}

/// Workers of the job that a node has, and that hold their place. Those of a job that has ended are on
/// their way out, and the next job may take their places one by one.
fn bound(seen: &Seen, job: &str) -> usize {
    let holds = |pod: &&Value| {
        let over = ["Succeeded", "Failed"].map(Value::from);
        pod["spec"]["nodeName"].is_string()
            && pod["metadata"]["deletionTimestamp"].is_null()
            && !over.contains(&pod["status"]["phase"])
    };
    of(seen, job, "worker").filter(holds).count()
}

fn of<'a>(seen: &'a Seen, job: &'a str, role: &'a str) -> impl Iterator<Item = &'a Value> {
    seen.values().filter(move |pod| {
        let labels = &pod["metadata"]["labels"];
        labels["training.kubeflow.org/job-name"] == job
            && labels["training.kubeflow.org/job-role"] == role
    })
}
