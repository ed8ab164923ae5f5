//! Success that is none: a launcher that does not find its list of hosts runs every rank beside
//! itself and ends with 0. The job fails at once, unless its user says that this is meant.

use anyhow::{Result, ensure};
use e2e::cluster_fixture::agent::{self, Verdict};
use e2e::cluster_fixture::pi::{Mpi, PI};
use e2e::condition;
use e2e::figures::say;
use e2e::jobs::MpiJob;

use crate::with_cluster;

#[test]
fn ranks_that_all_ran_in_the_launcher_fail_the_job_at_once() -> Result<()> {
    with_cluster("census-on", |fixture| {
        let job = fixture.submit(&hidden_hosts())?;
        let failed = job.failed()?;
        Verdict::of(&failed)?.expect(&["RanksNotDistributed"], &["0 of 3 workers"])?;
        ensure!(
            condition(&failed, "Succeeded") != Some("True"),
            "it failed and succeeded"
        );
        say(&format!(
            "ranks not distributed: failed {:.1} s after it was created",
            job.age().as_secs_f64()
        ));
        // The kubelet starts the container again at once, and may be quicker than its end.
        let tries = job.tries()?;
        ensure!(tries <= 2, "{tries} tries, and each ends the same way");
        Ok(())
    })
}

#[test]
fn hosts_are_not_counted_when_the_user_says_so() -> Result<()> {
    with_cluster("census-off", |fixture| {
        let job = fixture.submit(&hidden_hosts().with("/spec/muster/census", "Off"))?;
        job.succeeded_on(1, &[&job.launcher()])?;
        Ok(())
    })
}

/// Six more tries, if somebody thought that they would help.
fn hidden_hosts() -> MpiJob {
    let hide = [
        "env",
        "-u",
        "PRTE_MCA_prte_default_hostfile",
        "-u",
        "OMPI_MCA_orte_default_hostfile",
    ];
    let words = [&hide[..], &["mpirun", "-n", "1", PI]].concat();
    agent::job(Mpi::OpenMpi5, 3, &words).backoff_limit(6)
}
