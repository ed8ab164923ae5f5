//! Every MPI that is supported, as root and as an ordinary user: ranks run on the hosts that were
//! asked for, each over real ssh. A run that silently stays on one host is a failure here.

use anyhow::{Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, PI, User, job, pi};
use e2e::condition;

use crate::with_cluster;

#[test]
fn open_mpi_4_as_root() -> Result<()> {
    runs_on_two_workers("openmpi4-root", Mpi::OpenMpi4, User::Root)
}

#[test]
fn open_mpi_4_as_an_ordinary_user() -> Result<()> {
    runs_on_two_workers("openmpi4-user", Mpi::OpenMpi4, User::Mpiuser)
}

#[test]
fn open_mpi_5_as_root() -> Result<()> {
    runs_on_two_workers("openmpi5-root", Mpi::OpenMpi5, User::Root)
}

#[test]
fn open_mpi_5_as_an_ordinary_user() -> Result<()> {
    runs_on_two_workers("openmpi5-user", Mpi::OpenMpi5, User::Mpiuser)
}

#[test]
fn mpich_as_root() -> Result<()> {
    runs_on_two_workers("mpich-root", Mpi::Mpich, User::Root)
}

#[test]
fn mpich_as_an_ordinary_user() -> Result<()> {
    runs_on_two_workers("mpich-user", Mpi::Mpich, User::Mpiuser)
}

#[test]
fn intel_mpi_as_root() -> Result<()> {
    runs_on_two_workers("intel-root", Mpi::Intel, User::Root)
}

#[test]
fn intel_mpi_as_an_ordinary_user() -> Result<()> {
    runs_on_two_workers("intel-user", Mpi::Intel, User::Mpiuser)
}

fn runs_on_two_workers(name: &str, mpi: Mpi, user: User) -> Result<()> {
    with_cluster(name, |fixture| {
        fixture.submit(&pi(mpi, user, 2))?.succeeded_on_workers(2)?;
        Ok(())
    })
}

/// Open MPI refuses to run as root unless it is told to.
#[test]
fn a_launcher_that_always_fails_fails_the_job() -> Result<()> {
    with_cluster("openmpi4-refused", |fixture| {
        let refused =
            job(Mpi::OpenMpi4, User::Root, 2, &["mpirun", "-n", "2", PI]).backoff_limit(1);
        let submitted = fixture.submit(&refused)?;
        let failed = submitted.failed()?;
        ensure!(
            condition(&failed, "Succeeded").is_none(),
            "it cannot have succeeded"
        );
        ensure!(
            condition(&failed, "Running") == Some("False"),
            "it no longer runs"
        );
        Ok(())
    })
}

#[test]
fn several_ranks_on_each_worker() -> Result<()> {
    with_cluster("openmpi4-slots", |fixture| {
        let words = ["mpirun", "-n", "4", PI];
        let submitted = fixture.submit(&job(Mpi::OpenMpi4, User::Mpiuser, 2, &words).slots(2))?;
        submitted.succeeded_on(4, &[&submitted.worker(0), &submitted.worker(1)])?;
        Ok(())
    })
}

/// A pod on its node's network has the node's name, and one sshd is all a node's port can serve.
#[test]
fn pods_on_the_network_of_their_nodes() -> Result<()> {
    with_cluster("host-network", |fixture| {
        let words = ["mpirun", "--allow-run-as-root", PI];
        let on_node = |role| format!("/spec/mpiReplicaSpecs/{role}/template/spec/hostNetwork");
        let submitted = fixture.submit(
            &job(Mpi::OpenMpi4, User::Root, 1, &words)
                .with(&on_node("Launcher"), true)
                .with(&on_node("Worker"), true),
        )?;
        let worker = submitted.workers_run(1)?.remove(0);
        let node = worker["spec"]["nodeName"].as_str().unwrap_or_default();
        submitted.succeeded_on(1, &[node])?;
        Ok(())
    })
}
