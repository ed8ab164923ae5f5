//! Jobs that another controller looks after are left alone; those that name us are not.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, User, pi};
use e2e::wait_for;

use crate::with_cluster;

#[test]
fn a_job_of_multikueue_is_left_alone() -> Result<()> {
    with_cluster("multikueue", |fixture| {
        let theirs = pi(Mpi::OpenMpi4, User::Mpiuser, 2).managed_by("kueue.x-k8s.io/multikueue");
        let theirs = fixture.submit(&theirs)?;
        // A job that came later and is over proves that the operator has seen the first one too.
        let ours =
            fixture.submit(&pi(Mpi::OpenMpi4, User::Mpiuser, 1).with("/metadata/name", "ours"))?;
        ours.succeeded_on_workers(1)?;
        ours.delete()?;
        wait_for("our own job's parts to go", Duration::from_secs(60), || {
            Ok(fixture.leftovers()?.is_empty().then_some(()))
        })?;
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            ensure!(theirs.get()?["status"].is_null(), "it has a status");
            ensure!(fixture.leftovers()? == [""; 0], "it has parts");
        }
        Ok(())
    })
}

#[test]
fn a_job_that_names_this_operator_runs() -> Result<()> {
    with_cluster("managed-by-us", |fixture| {
        let job = pi(Mpi::OpenMpi4, User::Mpiuser, 2).managed_by("kubeflow.org/mpi-operator");
        fixture.submit(&job)?.succeeded_on_workers(2)?;
        Ok(())
    })
}
