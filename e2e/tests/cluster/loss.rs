//! Workers that are lost: one that was removed comes back under its name and can be used; one that
//! its node evicted ends the job.

use anyhow::{Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, PI, User, held_pi, job};
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use crate::with_cluster;

#[test]
fn a_worker_that_was_removed_before_the_program_starts_is_made_again() -> Result<()> {
    with_cluster("removed-early", |fixture| {
        let job = fixture.submit(&held_pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        job.running()?;
        let before = job.workers_run(2)?;
        fixture.cluster.kubectl(&[
            "delete",
            "pod",
            "-n",
            &fixture.namespace,
            &job.worker(1),
            "--wait=false",
        ])?;
        job.pods_until("another worker 1 that runs", "worker", |pods| {
            is_replaced(pods, &before[1])
        })?;
        job.release()?;
        job.succeeded_on_workers(2)?;
        Ok(())
    })
}

/// mpirun gives up when a worker goes, the launcher is tried again, and then finds the new worker.
#[test]
fn a_worker_that_was_removed_while_the_program_runs_is_made_again() -> Result<()> {
    with_cluster("removed-late", |fixture| {
        let job = fixture.submit(&job(
            Mpi::OpenMpi4,
            User::Mpiuser,
            2,
            &["mpirun", "-n", "2", PI, "8"],
        ))?;
        let before = job.workers_run(2)?;
        job.said("Workers: 2")?;
        let args = [
            "delete",
            "pod",
            "-n",
            &fixture.namespace,
            &job.worker(1),
            "--wait=false",
        ];
        fixture
            .cluster
            .kubectl(&[&args[..], &["--grace-period=1"]].concat())?;
        job.pods_until("another worker 1 that runs", "worker", |pods| {
            is_replaced(pods, &before[1])
        })?;
        job.succeeded_on_workers(2)?;
        ensure!(job.tries()? > 1, "the program cannot have survived this");
        Ok(())
    })
}

/// A real eviction: the kubelet ends a pod that fills its node's disk beyond its limit. The worker
/// does not end by itself when asked to: of one that does, with 0 as sshd does, today's kubelet says
/// `Succeeded`, and forgets that it evicted it.
#[test]
fn a_worker_that_its_node_evicted_ends_the_job() -> Result<()> {
    with_cluster("evicted", |fixture| {
        let sshd = "/usr/sbin/sshd -De -f /home/mpiuser/.sshd_config; exit 1";
        let resources = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources";
        let limited = held_pi(Mpi::OpenMpi4, User::Mpiuser, 2)
            .worker_command(&["sh", "-c", sshd])
            .worker_args(&[])
            .with(resources, json!({"limits": {"ephemeral-storage": "8Mi"}}));
        let job = fixture.submit(&limited)?;
        job.running()?;
        let fill = "head --bytes=64M /dev/zero >/tmp/fill";
        let args = [
            "exec",
            "-n",
            &fixture.namespace,
            &job.worker(1),
            "--",
            "sh",
            "-c",
            fill,
        ];
        fixture.cluster.kubectl(&args)?;
        let failed = job.failed()?;
        let conditions = failed["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let verdict = conditions
            .iter()
            .find(|condition| condition["type"] == "Failed");
        assert_eq!(
            verdict.map(|verdict| &verdict["reason"]),
            Some(&json!("MPIJobEvicted"))
        );
        assert_eq!(
            verdict.map(|verdict| &verdict["message"]),
            Some(&json!("1/2 workers are evicted"))
        );
        wait_for(
            "the launcher and the other worker to go",
            e2e::cluster_fixture::PATIENCE,
            || {
                let left = fixture.pods("pi", "worker")?;
                // The kubelet keeps the evicted pod as evidence, and so must the operator.
                let evicted = matches!(&left[..], [pod] if pod["status"]["reason"] == "Evicted");
                Ok((evicted && fixture.pods("pi", "launcher")?.is_empty()).then_some(()))
            },
        )?;
        ensure!(
            condition(&job.get()?, "Succeeded") != Some("True"),
            "the verdict stands"
        );
        Ok(())
    })
}

fn is_replaced(pods: &[Value], old: &Value) -> bool {
    pods.iter().any(|pod| {
        pod["metadata"]["name"] == old["metadata"]["name"]
            && pod["metadata"]["uid"] != old["metadata"]["uid"]
            && pod["status"]["phase"] == "Running"
    })
}
