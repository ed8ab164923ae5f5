//! Deleting a job: everything it had goes with it, and its name is free at once.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::real::pi::{Mpi, User, held_pi, pi};
use e2e::wait_for;

use crate::in_lab;

#[test]
fn everything_goes_with_a_running_job() -> Result<()> {
    in_lab("deleted", |lab| {
        let job = lab.submit(&held_pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        job.running()?;
        ensure!(
            lab.leftovers()?.len() >= 7,
            "service, config, secret, launcher, three pods"
        );
        job.delete()?;
        wait_for(
            "all of the job's parts to go",
            Duration::from_secs(90),
            || Ok(lab.leftovers()?.is_empty().then_some(())),
        )
    })
}

/// Parts of the first are still there when the second comes, under the same names.
#[test]
fn a_name_can_be_used_again_at_once() -> Result<()> {
    in_lab("again", |lab| {
        let first = lab.submit(&held_pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        let old = first.running()?;
        first.delete()?;
        let second = lab.submit(&pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        second.succeeded_on_workers(2)?;
        ensure!(
            second.get()?["metadata"]["uid"] != old["metadata"]["uid"],
            "it is another job"
        );
        Ok(())
    })
}
