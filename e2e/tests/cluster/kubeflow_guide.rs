//! The MPIJob of Kubeflow's training guide (docs/components/training/user-guides/mpi), with its scheduling policy
//! and its flags, runs as it is written there; only TensorFlow is replaced by pi.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::pi::PI;
use e2e::condition;
use e2e::jobs::MpiJob;
use serde_json::json;

use crate::with_cluster;

const IMAGE: &str = "muster.test/openmpi4:1";

#[test]
fn the_benchmark_of_the_guide_runs() -> Result<()> {
    with_cluster("guide", |fixture| {
        give_gpus(fixture)?;
        let mut mpirun = vec!["mpirun", "--allow-run-as-root", "-np", "2"];
        mpirun.extend([
            "-bind-to",
            "none",
            "-map-by",
            "slot",
            "-x",
            "NCCL_DEBUG=INFO",
        ]);
        mpirun.extend(["-x", "LD_LIBRARY_PATH", "-x", "PATH"]);
        mpirun.extend(["-mca", "pml", "ob1", "-mca", "btl", "^openib", PI]);
        let limits = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources/limits";
        let guide = MpiJob::named("tensorflow-benchmarks")
            .workers(1)
            .slots(2)
            .image(IMAGE)
            .launcher_command(&mpirun)
            .clean_pod_policy("Running")
            .with(
                "/spec/runPolicy/schedulingPolicy",
                json!({
                    "minAvailable": 10,
                    "queue": "test-queue",
                    "minResources": {"requests": {"cpu": "3000m"}},
                    "priorityClass": "high",
                    "scheduleTimeoutSeconds": 180,
                }),
            )
            .with("/spec/mpiReplicaSpecs/Launcher/replicas", 1)
            .with(limits, json!({"nvidia.com/gpu": 2}));
        let job = fixture.submit(&guide)?;
        job.succeeded_on(2, &[&job.worker(0)])?;
        let status = &job.get()?;
        ensure!(
            condition(status, "Created") == Some("True"),
            "the guide shows it"
        );
        ensure!(
            condition(status, "Running") == Some("False"),
            "the guide shows it"
        );
        assert_eq!(
            status["status"]["replicaStatuses"],
            json!({"Launcher": {"succeeded": 1}, "Worker": {}})
        );
        Ok(())
    })
}

/// Kubernetes takes an administrator's word for how many GPUs a node has.
pub(crate) fn give_gpus(fixture: &ClusterFixture) -> Result<()> {
    let nodes = fixture
        .cluster
        .kubectl(&["get", "nodes", "--output=name"])?;
    let node = nodes.lines().next().context("a cluster without nodes")?;
    let patch = json!({"status": {"capacity": {"nvidia.com/gpu": "2"}}}).to_string();
    let args = [
        "patch",
        node,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    fixture.cluster.kubectl(&args)?;
    Ok(())
}
