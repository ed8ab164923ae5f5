//! Deleting a job: everything it had goes with it, and its name is free at once.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, User, held_pi, pi};
use e2e::wait_for;

use crate::with_cluster;

#[test]
fn everything_goes_with_a_running_job() -> Result<()> {
    with_cluster("deleted", |fixture| {
        let job = fixture.submit(&held_pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        job.running()?;
        ensure!(
            fixture.leftovers()?.len() >= 7,
            "service, config, secret, launcher, three pods"
        );
        job.delete()?;
        wait_for(
            "all of the job's parts to go",
            Duration::from_secs(90),
            || Ok(fixture.leftovers()?.is_empty().then_some(())),
        )
    })
}

/// Parts of the first are still there when the second comes, under the same names.
#[test]
fn a_name_can_be_used_again_at_once() -> Result<()> {
    with_cluster("again", |fixture| {
        let first = fixture.submit(&held_pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        let old = first.running()?;
        first.delete()?;
        let second = fixture.submit(&pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        second.succeeded_on_workers(2)?;
        ensure!(
            second.get()?["metadata"]["uid"] != old["metadata"]["uid"],
            "it is another job"
        );
        Ok(())
    })
}
