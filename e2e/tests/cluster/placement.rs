//! Where the workers of a job go: three nodes have room for all of them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::pi::{Mpi, User, held_pi};
use serde_json::Value;

use crate::with_cluster;

/// Runs a job of so many workers, and returns the nodes that they ran on.
fn nodes_of(fixture: &ClusterFixture, placement: &str, workers: u32) -> Result<BTreeSet<String>> {
    let job = held_pi(Mpi::OpenMpi4, User::Root, workers).with("/spec/muster/placement", placement);
    let job = fixture.submit(&job.with("/metadata/name", placement.to_lowercase()))?;
    let pods = job.workers_run(workers)?;
    job.release()?;
    job.succeeded_on_workers(workers)?;
    let node = |pod: &Value| pod["spec"]["nodeName"].as_str().map(str::to_owned);
    Ok(pods.iter().filter_map(node).collect())
}

#[test]
fn workers_spread_or_share_a_node_as_the_job_says() -> Result<()> {
    with_cluster("placement", |fixture| {
        let nodes = nodes_of(fixture, "Spread", 3)?;
        ensure!(nodes.len() == 3, "spread over {nodes:?}");
        let nodes = nodes_of(fixture, "Pack", 3)?;
        ensure!(nodes.len() == 1, "packed on {nodes:?}");
        let nodes = nodes_of(fixture, "OnePerNode", 3)?;
        ensure!(nodes.len() == 3, "one per node on {nodes:?}");
        Ok(())
    })
}

#[test]
fn a_worker_without_a_node_of_its_own_waits_and_says_why() -> Result<()> {
    with_cluster("one-per-node", |fixture| {
        let job = held_pi(Mpi::OpenMpi4, User::Root, 4);
        let job = fixture.submit(&job.with("/spec/muster/placement", "OnePerNode"))?;
        let job = job.until("the reason", |job| {
            job["status"]["muster"]["reason"] == "Unschedulable"
        })?;
        let message = job["status"]["muster"]["message"].to_string();
        ensure!(message.contains("anti-affinity"), "{message}");
        Ok(())
    })
}
