//! A namespace that enforces Pod Security `restricted`, users that nobody knows, a root file system
//! that nobody can write to, and no token of the API server in any pod: every MPI runs there.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::agent;
use e2e::cluster_fixture::pi::{Mpi, PI};
use e2e::jobs::MpiJob;
use serde_json::{Value, json};

use crate::with_cluster;

#[test]
fn open_mpi_4_runs_restricted() -> Result<()> {
    runs_restricted(Mpi::OpenMpi4)
}

#[test]
fn open_mpi_5_runs_restricted() -> Result<()> {
    runs_restricted(Mpi::OpenMpi5)
}

#[test]
fn mpich_runs_restricted() -> Result<()> {
    runs_restricted(Mpi::Mpich)
}

#[test]
fn intel_mpi_runs_restricted() -> Result<()> {
    runs_restricted(Mpi::Intel)
}

fn runs_restricted(mpi: Mpi) -> Result<()> {
    with_cluster(&format!("restricted-{}", mpi.name()), |fixture| {
        let enforce = "pod-security.kubernetes.io/enforce=restricted";
        fixture
            .cluster
            .kubectl(&["label", "namespace", &fixture.namespace, enforce])?;
        let id = "test \"$(id -u):$(id -g)\" = 1234560000:0 && ! touch /here 2>/dev/null";
        let run = format!("{id} && mpirun -n 2 {PI}");
        let job = fixture.submit(&restricted(agent::job(mpi, 2, &["sh", "-c", &run])))?;
        let workers = job.workers_run(2)?;
        job.succeeded_on_workers(2)?;
        let launcher = job.launcher_pod()?;
        for pod in workers.iter().chain([&launcher]) {
            ensure!(!has_token(pod)?, "a token in {}", pod["metadata"]["name"]);
        }
        Ok(())
    })
}

/// What such a namespace asks of a template, and no more room than `/tmp`.
fn restricted(mut job: MpiJob) -> MpiJob {
    for role in ["Launcher", "Worker"] {
        let spec = |field: &str| format!("/spec/mpiReplicaSpecs/{role}/template/spec/{field}");
        let context = json!({
            "runAsUser": 1_234_560_000, "runAsGroup": 0, "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        let container = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        });
        let mount = json!([{"name": "tmp", "mountPath": "/tmp"}]);
        job = job
            .with(&spec("securityContext"), context)
            .with(&spec("volumes"), json!([{"name": "tmp", "emptyDir": {}}]))
            .with(&spec("containers/0/securityContext"), container)
            .with(&spec("containers/0/volumeMounts"), mount);
    }
    job
}

fn has_token(pod: &Value) -> Result<bool> {
    let volumes = pod["spec"]["volumes"]
        .as_array()
        .context("a pod without volumes")?;
    let sources = volumes
        .iter()
        .filter_map(|volume| volume["projected"]["sources"].as_array());
    Ok(sources
        .flatten()
        .any(|source| source.get("serviceAccountToken").is_some()))
}
