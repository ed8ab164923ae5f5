//! Jobs of other shapes than the usual: a launcher that takes ranks or leaves its command to its
//! image, workers with a command of their own or two on one node's network, no gate.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::agent;
use e2e::cluster_fixture::pi::{Mpi, PI};
use serde_json::{Value, json};

use crate::with_cluster;

#[test]
fn a_launcher_takes_ranks_without_ssh() -> Result<()> {
    with_cluster("shape-host", |fixture| {
        for mpi in [Mpi::OpenMpi5, Mpi::Mpich] {
            let words = ["mpirun", "-n", "3", PI];
            let job = agent::job(mpi, 2, &words)
                .with("/metadata/name", mpi.name())
                .launcher_as_worker();
            let job = fixture.submit(&job)?;
            let hosts = [job.launcher(), job.worker(0), job.worker(1)];
            job.succeeded_on(3, &hosts.each_ref().map(String::as_str))?;
        }
        Ok(())
    })
}

/// The images of Hydra's MPIs have an entry point that ends in what it is given.
#[test]
fn a_launcher_without_command_is_started_by_its_image() -> Result<()> {
    with_cluster("shape-image", |fixture| {
        for (mpi, implementation) in [(Mpi::Mpich, "MPICH"), (Mpi::Intel, "Intel")] {
            let job = agent::job(mpi, 2, &[])
                .with("/metadata/name", mpi.name())
                .implementation(implementation)
                .launcher_args(&["mpirun", "-n", "2", PI]);
            fixture.submit(&job)?.succeeded_on_workers(2)?;
        }
        Ok(())
    })
}

#[test]
fn a_worker_ends_as_its_own_command_does() -> Result<()> {
    with_cluster("shape-command", |fixture| {
        let own = "echo own command; until [ -e /tmp/end ]; do sleep 0.1; done; exit 7";
        let job = agent::job(Mpi::OpenMpi4, 2, &["mpirun", "-n", "2", PI])
            .worker_command(&["sh", "-c", own])
            .clean_pod_policy("None");
        let job = fixture.submit(&job)?;
        job.succeeded_on_workers(2)?;
        let worker = job.worker(0);
        let said = fixture
            .cluster
            .kubectl(&["logs", "-n", &fixture.namespace, &worker])?;
        ensure!(said.contains("own command"), "it did not run: {said}");
        fixture.exec(&worker, &["touch", "/tmp/end"])?;
        let pods = job.pods_until("its end", "worker", |pods| {
            pods[0]["status"]["phase"] == "Failed"
        })?;
        let state = &pods[0]["status"]["containerStatuses"][0]["state"];
        assert_eq!(state["terminated"]["exitCode"], 7);
        Ok(())
    })
}

#[test]
fn two_workers_share_the_network_of_one_node() -> Result<()> {
    with_cluster("shape-network", |fixture| {
        let node = a_node(fixture)?;
        for mpi in [Mpi::OpenMpi4, Mpi::Mpich] {
            let spec = |field: &str| format!("/spec/mpiReplicaSpecs/Worker/template/spec/{field}");
            let words = ["mpirun", "-n", "2", PI];
            let job = agent::job(mpi, 2, &words)
                .with("/metadata/name", mpi.name())
                .launcher_restart_policy("Never")
                .with(&spec("hostNetwork"), true)
                .with(&spec("nodeName"), node.as_str());
            let job = fixture.submit(&job)?;
            job.succeeded()?;
            let output = job.output()?;
            ensure!(output.ranks == Some(2), "not two ranks:\n{}", output.text);
            let verdict = verdict_of(&job.launcher_pod()?)?;
            ensure!(
                verdict["hosts"] == 2,
                "both workers must take part: {verdict}"
            );
        }
        Ok(())
    })
}

/// What the agent leaves behind in a launcher that ran under it.
fn verdict_of(pod: &Value) -> Result<Value> {
    let state = &pod["status"]["containerStatuses"][0]["state"];
    let words = state["terminated"]["message"].as_str();
    let words = words.context("the launcher left no words")?;
    serde_json::from_str(words.trim()).with_context(|| format!("these are its words: {words}"))
}

fn a_node(fixture: &ClusterFixture) -> Result<String> {
    let nodes = fixture
        .cluster
        .kubectl(&["get", "nodes", "--output=name"])?;
    let node = nodes.lines().next().context("a cluster without nodes")?;
    Ok(node.trim_start_matches("node/").to_owned())
}

/// Without a gate the shim itself waits for the workers; they come a little later here.
#[test]
fn a_job_without_gate_finds_workers_that_come_later() -> Result<()> {
    with_cluster("shape-gate", |fixture| {
        let delay = json!([{
            "name": "delay",
            "image": agent::image(Mpi::OpenMpi4),
            "imagePullPolicy": "Never",
            "command": ["sleep", "5"],
        }]);
        let words = ["mpirun", "-n", "2", PI];
        let job = agent::job(Mpi::OpenMpi4, 2, &words)
            .with("/spec/muster/gate", "Off")
            .with(
                "/spec/mpiReplicaSpecs/Worker/template/spec/initContainers",
                delay,
            );
        let job = fixture.submit(&job)?;
        job.succeeded_on_workers(2)?;
        ensure!(job.tries()? == 1, "the first try was not enough");
        Ok(())
    })
}
