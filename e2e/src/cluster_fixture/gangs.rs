//! Two jobs that do not fit together, whoever schedules them as gangs: they run one after the other, and
//! neither ever holds a part of the room that the other waits for. Must not know any gang scheduler.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::pi::{Mpi, User, pi};
use super::watch::Seen;
use super::{ClusterFixture, MPIJOBS};
use crate::figures::say;
use crate::jobs::MpiJob;
use crate::number;

const WORKERS: u32 = 6;
/// Places on the nodes, eight in all: enough for one job, and not for two.
const PLACES: [(&str, &str); 3] = [("node1", "3"), ("node2", "3"), ("node3", "2")];
/// How often the jobs compete: `MUSTER_GANG_ROUNDS`, or this often.
const ROUNDS: u32 = 2;
/// How many pairs of jobs compete at the same time, each pair for places of its own: `MUSTER_GANG_PAIRS`, or
/// so many. A round mostly waits, for schedulers and for kubelets.
const PAIRS: u32 = 1;
/// Twelve pods start and two jobs run, while other tests do the same.
const ROUND_MAX: Duration = Duration::from_secs(300);

/// Lets two such jobs compete again and again. Each round, both must end well.
pub fn compete(fixture: &ClusterFixture, in_gang: impl Fn(MpiJob) -> MpiJob + Sync) -> Result<()> {
    let rounds = number("MUSTER_GANG_ROUNDS", ROUNDS)?;
    let pairs = number("MUSTER_GANG_PAIRS", PAIRS)?.min(rounds);
    let (next, in_gang) = (AtomicU32::new(0), &in_gang);
    let begun = Instant::now();
    let run = |pair: u32| -> Result<()> {
        let place = format!("{}.muster.test/place-{pair}", fixture.namespace);
        make_places(fixture, &place)?;
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            if round >= rounds {
                return Ok(());
            }
            let competed = compete_once(fixture, round, &place, in_gang);
            // One that failed is looked at; the others come to their end.
            let competed = competed.inspect_err(|_| next.store(rounds, Ordering::Relaxed));
            competed.with_context(|| format!("round {round}"))?;
        }
    };
    let run = &run;
    thread::scope(|scope| {
        let pairs: Vec<_> = (0..pairs)
            .map(|pair| scope.spawn(move || run(pair)))
            .collect();
        let ended = pairs
            .into_iter()
            .map(|pair| pair.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect::<Result<()>>()
    })?;
    let (namespace, secs) = (&fixture.namespace, begun.elapsed().as_secs_f64());
    say(&format!("{namespace}: {rounds} rounds in {secs:.0} s"));
    Ok(())
}

/// The kubelet would copy them to what may be allocated, a while later.
fn make_places(fixture: &ClusterFixture, place: &str) -> Result<()> {
    for (node, count) in PLACES {
        let places = json!({(place): count});
        let status = json!({"status": {"capacity": places, "allocatable": places}});
        let patch = status.to_string();
        let args = ["patch", "node", node, "--subresource=status"];
        let args = [&args[..], &["--type=merge", "--patch", &patch]].concat();
        fixture.cluster.kubectl(&args)?;
    }
    Ok(())
}

/// Two jobs that come at the same time and both need six of the eight places.
fn compete_once(
    fixture: &ClusterFixture,
    round: u32,
    place: &str,
    in_gang: &impl Fn(MpiJob) -> MpiJob,
) -> Result<()> {
    let names = ["a", "b"].map(|name| format!("{name}{round}"));
    let resources = json!({"limits": {(place): "1"}});
    let jobs = names.each_ref().map(|name| {
        let worker = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources";
        let job = pi(Mpi::OpenMpi4, User::Root, WORKERS);
        let job = job.with("/metadata/name", name.as_str());
        in_gang(job.with(worker, resources.clone())).json()
    });
    fixture.create(&json!({"apiVersion": "v1", "kind": "List", "items": jobs}))?;
    let jobs = names.each_ref().map(|name| fixture.submitted(name));
    in_turn(fixture, &names)?;
    for job in &jobs {
        job.succeeded_on_workers(WORKERS)?;
    }
    let [first, second] = &names;
    let delete = ["delete", "-n", &fixture.namespace, MPIJOBS, first, second];
    fixture.cluster.kubectl(&delete).map(drop)
}

/// Watches until both launchers have ended well. Never may both jobs hold places.
fn in_turn(fixture: &ClusterFixture, names: &[String; 2]) -> Result<()> {
    let mut held = BTreeSet::new();
    let [first, second] = names;
    let of_both = format!("training.kubeflow.org/job-name in ({first},{second})");
    let query = ["pods", "--selector", &of_both];
    fixture.watch("both jobs", &query, ROUND_MAX, |seen| {
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
