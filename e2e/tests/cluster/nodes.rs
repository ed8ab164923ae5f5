//! Nodes that a job has to leave: one that is drained, which the program is told, and one that loses power, which
//! nobody can tell it. `cargo xtask test --only cluster -- --ignored power` ends one of the nodes of its
//! cluster for good.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::agent::{self, MISBEHAVE};
use e2e::cluster_fixture::pi::Mpi;
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, selector};
use e2e::figures::say;
use e2e::{Cluster, wait_for};
use serde_json::{Value, json};

use crate::with_cluster_alone;

const WORKERS: u32 = 3;
/// The cluster notices, Kubernetes gives the pods up, muster does, and others start.
const ELSEWHERE_MAX: Duration = Duration::from_secs(300);

/// In the first attempt, each rank writes a checkpoint when it is told to.
const RANK: &str = "trap 'echo the checkpoint of rank $OMPI_COMM_WORLD_RANK; exit 0' USR1; \
                    echo rank $OMPI_COMM_WORLD_RANK waits; while :; do sleep 0.1; done";

#[test]
fn a_program_is_told_that_its_node_is_drained() -> Result<()> {
    with_cluster_alone("drained", |fixture| {
        let script = format!(
            "[ $MUSTER_ATTEMPT -gt 1 ] && exec mpirun -n {WORKERS} {MISBEHAVE} 1 wait; \
             exec mpirun -n {WORKERS} sh -c \"$0\""
        );
        let job = agent::job(Mpi::OpenMpi4, WORKERS, &["sh", "-c", &script, RANK])
            .with("/spec/muster/placement", "Spread")
            .with(
                "/spec/muster/recovery",
                json!({"restarts": 1, "signal": "SIGUSR1", "graceSeconds": 20}),
            );
        let job = fixture.submit(&job)?;
        for rank in 0..WORKERS {
            job.said(&format!("rank {rank} waits"))?;
        }
        let node = node_without_launcher(fixture, &job)?;
        let drained = drain(&fixture.cluster, &node, &job).and_then(|()| {
            job.said("attempt 2 of at most")?;
            let pods = fixture.pods(job.name(), "worker")?;
            ensure!(
                pods.iter().all(|pod| node_of(pod) != node),
                "a worker is on {node}"
            );
            Ok(())
        });
        fixture.cluster.kubectl(&["uncordon", &node])?;
        drained?;
        let succeeded = job.succeeded()?;
        let output = job.output()?.text;
        for rank in 0..WORKERS {
            let words = format!("the checkpoint of rank {rank}");
            ensure!(
                output.matches(&words).count() == 1,
                "no `{words}`:\n{output}"
            );
        }
        // One restart is left, so none was charged.
        let line = "attempt 2 of at most 3: Evicted: ";
        ensure!(output.contains(line), "no `{line}`:\n{output}");
        let muster = &succeeded["status"]["muster"];
        ensure!(muster["lostWorkers"].is_null(), "{muster}");
        ensure!(job.tries()? == 1, "the launcher's pod was replaced");
        say(&format!("drained: {}", muster["message"]));
        Ok(())
    })
}

fn drain(cluster: &Cluster, node: &str, job: &Submitted<'_>) -> Result<()> {
    let workers = format!("--pod-selector={}", selector(job.name(), "worker"));
    let words = [
        "drain",
        node,
        "--delete-emptydir-data",
        "--timeout=60s",
        &workers,
    ];
    cluster.kubectl(&words)?;
    Ok(())
}

#[test]
#[ignore = "the node that loses power does not come back"]
fn a_program_goes_on_elsewhere_when_a_node_loses_power() -> Result<()> {
    with_cluster_alone("power", |fixture| {
        let script = format!(
            "[ $MUSTER_ATTEMPT -gt 1 ] && exec mpirun -n {WORKERS} {MISBEHAVE} 1 wait; \
             exec mpirun -n {WORKERS} {MISBEHAVE} 900 wait"
        );
        let tolerations: Vec<Value> = ["unreachable", "not-ready"]
            .into_iter()
            .map(|taint| {
                json!({"key": format!("node.kubernetes.io/{taint}"), "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": 5})
            })
            .collect();
        let job = agent::job(Mpi::OpenMpi4, WORKERS, &["sh", "-c", &script])
            .with("/spec/muster/placement", "Spread")
            .with(
                "/spec/muster/recovery",
                json!({"restarts": 1, "graceSeconds": 1}),
            )
            .with(
                "/spec/mpiReplicaSpecs/Worker/template/spec/tolerations",
                json!(tolerations),
            )
            .with(
                "/spec/mpiReplicaSpecs/Worker/template/spec/terminationGracePeriodSeconds",
                1,
            );
        let job = fixture.submit(&job)?;
        job.said("ranks met at")?;
        let before = fixture.pods(job.name(), "worker")?;
        let node = node_without_launcher(fixture, &job)?;
        let since = Instant::now();
        power_off(&fixture.cluster, &node)?;
        wait_for("the ranks to meet again", ELSEWHERE_MAX, || {
            let met = job.output()?.text.matches("ranks met at").count();
            Ok((met >= 2).then_some(()))
        })?;
        let took = since.elapsed();
        let after = fixture.pods(job.name(), "worker")?;
        let uids = |pods: &[Value]| -> Vec<String> {
            let stayed = pods.iter().filter(|pod| node_of(pod) != node);
            stayed
                .map(|pod| pod["metadata"]["uid"].to_string())
                .collect()
        };
        let stayed = uids(&before);
        ensure!(
            stayed.iter().all(|uid| uids(&after).contains(uid)),
            "others were replaced: {stayed:?}"
        );
        let succeeded = job.succeeded()?;
        say(&format!(
            "{node} lost power: ranks met again after {:.0} s, {} of {WORKERS} pods stayed; {}",
            took.as_secs_f64(),
            stayed.len(),
            succeeded["status"]["muster"]["message"]
        ));
        Ok(())
    })
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// A node on which workers of the job run, and its launcher does not.
fn node_without_launcher(fixture: &ClusterFixture, job: &Submitted<'_>) -> Result<String> {
    let launcher = job.launcher_pod()?;
    let workers = fixture.pods(job.name(), "worker")?;
    let other = workers.iter().map(node_of);
    let mut other = other.filter(|node| *node != node_of(&launcher));
    let node = other
        .next()
        .context("all workers are on the launcher's node")?;
    Ok(node.to_owned())
}

/// Ends the first process of the node, and with it all of the node, containers included: its network and its
/// kubelet are gone from one moment to the next.
fn power_off(cluster: &Cluster, node: &str) -> Result<()> {
    let variables = [
        format!("MUSTER_PROCESS_OF_CLUSTER={}", cluster.state.display()),
        format!("MUSTER_PROCESS_OF_NODE={node}"),
    ];
    let numbers =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_first = |process: &u32| {
        let file = |name: &str| {
            let path = format!("/proc/{process}/{name}");
            String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
        };
        let (environment, status) = (file("environ"), file("status"));
        let is_ours = |variable: &String| environment.split('\0').any(|one| one == variable);
        // Its number in our namespace, in the cluster's and in the node's own.
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let numbers: Vec<_> = numbers.unwrap_or_default().split_whitespace().collect();
        variables.iter().all(is_ours) && numbers.len() == 3 && numbers[2] == "1"
    };
    let first = numbers.into_iter().find(is_first);
    let first = first.with_context(|| format!("no process of {node} on this machine"))?;
    let killed = Command::new("kill")
        .args(["-KILL", &first.to_string()])
        .status();
    ensure!(killed.context("starting kill")?.success(), "kill failed");
    Ok(())
}
