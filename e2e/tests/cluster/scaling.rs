//! Changing the number of workers of a running job: pods and list of hosts follow, up and down.

use anyhow::{Context, Result};
use e2e::cluster_fixture::pi::{Mpi, PI, User, job};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE};
use e2e::wait_for;
use serde_json::json;

use crate::with_cluster;

/// Runs on three hosts as soon as the list has three, then on two.
const FOLLOW: &str = "hosts() { until [ $(wc -l </etc/mpi/hostfile) = $1 ]; do sleep 0.1; done; }; \
                      hosts 3 && mpirun -n 3 $0 && echo ready for two && hosts 2 && mpirun -n 2 $0";

#[test]
fn workers_come_and_go_with_their_number() -> Result<()> {
    with_cluster("scaled", |fixture| {
        let job = fixture.submit(&job(
            Mpi::OpenMpi4,
            User::Mpiuser,
            1,
            &["sh", "-c", FOLLOW, PI],
        ))?;
        job.running()?;
        scale(fixture, 3)?;
        job.workers_run(3)?;
        sees_hosts(fixture, &job, "ready for two")?;
        scale(fixture, 2)?;
        job.workers_run(2)?;
        sees_hosts(fixture, &job, "Workers: 2")?;
        let output = job.succeeded_on_workers(2)?;
        assert!(
            output.text.contains("rank 2 of 3 on pi-worker-2"),
            "{}",
            output.text
        );
        Ok(())
    })
}

fn scale(fixture: &ClusterFixture, workers: u32) -> Result<()> {
    let replicas = json!({"Worker": {"replicas": workers}});
    fixture.patch(
        e2e::cluster_fixture::MPIJOBS,
        "pi",
        &json!({"spec": {"mpiReplicaSpecs": replicas}}),
    )
}

/// Waits until the launcher has said this. A kubelet brings mounted files up to date about once a
/// minute, and whenever the pod changes.
fn sees_hosts(fixture: &ClusterFixture, job: &Submitted<'_>, words: &str) -> Result<()> {
    let launchers = fixture.pods("pi", "launcher")?;
    let pod = launchers.first().context("the launcher is gone")?;
    let pod = pod["metadata"]["name"]
        .as_str()
        .context("a pod without a name")?;
    let mut looks = 0;
    wait_for(&format!("`{words}` in the log"), PATIENCE, || {
        looks += 1;
        let change = json!({"metadata": {"annotations": {"looks": looks.to_string()}}});
        fixture.patch("pod", pod, &change)?;
        Ok(job.output()?.text.contains(words).then_some(()))
    })
}
