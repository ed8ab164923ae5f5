//! Two workers on one node, in every MPI and both transports: no rank is bound to a core that a rank of
//! the other worker is bound to as well. Each MPI binds by its own count of cores, which on one node are
//! the same for both.

use anyhow::{Result, ensure};
use e2e::cluster_fixture::pi::{self, Mpi, User};
use e2e::cluster_fixture::{ClusterFixture, agent};
use e2e::jobs::MpiJob;
use serde_json::json;

use crate::with_cluster;

/// The cores that each rank may use.
const SHOW: &str = "grep Cpus_allowed_list /proc/self/status";

#[test]
fn v06_open_mpi_4_uses_all_cores_of_a_shared_node() -> Result<()> {
    uses_all_cores(Mpi::OpenMpi4)
}

#[test]
fn v06_open_mpi_5_uses_all_cores_of_a_shared_node() -> Result<()> {
    uses_all_cores(Mpi::OpenMpi5)
}

#[test]
fn v06_mpich_uses_all_cores_of_a_shared_node() -> Result<()> {
    uses_all_cores(Mpi::Mpich)
}

#[test]
fn v06_intel_mpi_uses_all_cores_of_a_shared_node() -> Result<()> {
    uses_all_cores(Mpi::Intel)
}

fn uses_all_cores(mpi: Mpi) -> Result<()> {
    with_cluster(&format!("cores-{}", mpi.name()), |fixture| {
        let ranks = ["mpirun", "-n", "4", "sh", "-c", SHOW];
        runs_everywhere(fixture, agent::job(mpi, 2, &ranks))?;
        let over_ssh = pi::job(mpi, User::Mpiuser, 2, &ranks);
        runs_everywhere(fixture, over_ssh.with("/metadata/name", "over-ssh"))
    })
}

fn runs_everywhere(fixture: &ClusterFixture, job: MpiJob) -> Result<()> {
    let term = json!([{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"training.kubeflow.org/job-role": "worker"}},
    }]);
    let path = "/spec/mpiReplicaSpecs/Worker/template/spec/affinity/podAffinity/\
                requiredDuringSchedulingIgnoredDuringExecution";
    let job = fixture.submit(&job.slots(2).with(path, term))?;
    job.succeeded()?;
    let output = job.output()?;
    let masks: Vec<&str> = output
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim)
        .collect();
    let all = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    ensure!(
        masks == [all.trim(); 4],
        "{masks:?} of {all}: {}",
        output.text
    );
    Ok(())
}
