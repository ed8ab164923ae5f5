//! Changing the number of workers of a running job: pods and list of hosts follow, up and down.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, PI, User, held_pi, job};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, MPIJOBS, PATIENCE};
use e2e::wait_for;
use serde_json::{Value, json};

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

#[test]
fn kubectl_scale_deletes_no_worker_that_stays() -> Result<()> {
    with_cluster("scale", |fixture| follow_scale(fixture, false))
}

/// The launcher has index 0 then, and worker 0 index 1.
#[test]
fn kubectl_scale_deletes_no_worker_that_stays_beside_a_launcher_with_ranks() -> Result<()> {
    with_cluster("scale-launcher", |fixture| follow_scale(fixture, true))
}

fn follow_scale(fixture: &ClusterFixture, launcher_as_worker: bool) -> Result<()> {
    let job = held_pi(Mpi::OpenMpi4, User::Root, 2);
    let job = fixture.submit(&match launcher_as_worker {
        true => job.launcher_as_worker(),
        false => job,
    })?;
    job.running()?;
    let mut before = job.workers_run(2)?;
    for count in [4, 3, 1] {
        let replicas = format!("--replicas={count}");
        let name = format!("{MPIJOBS}/pi");
        let args = ["scale", "--namespace", &fixture.namespace, &name, &replicas];
        fixture.cluster.kubectl(&args)?;
        let after = job.workers_run(count)?;
        for (old, new) in before.iter().zip(&after) {
            let uid = |pod: &Value| pod["metadata"]["uid"].clone();
            ensure!(
                uid(old) == uid(new),
                "{} was replaced",
                new["metadata"]["name"]
            );
        }
        let hosts = count as usize + usize::from(launcher_as_worker);
        wait_for(&format!("a list of {hosts} hosts"), PATIENCE, || {
            let config = fixture
                .cluster
                .get(&fixture.namespace, "configmap", "pi-config")?;
            let config = config.context("the lists are gone")?;
            let list = config["data"]["hostfile"].as_str().unwrap_or_default();
            Ok((list.lines().count() == hosts).then_some(()))
        })?;
        job.until("the scale to follow", |job| {
            job["status"]["replicaStatuses"]["Worker"]["active"] == count
        })?;
        before = after;
    }
    let launchers = fixture.pods("pi", "launcher")?;
    ensure!(launchers.len() == 1, "the launcher was started again");
    job.delete()
}

fn scale(fixture: &ClusterFixture, workers: u32) -> Result<()> {
    let replicas = json!({"Worker": {"replicas": workers}});
    fixture.patch(
        MPIJOBS,
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
