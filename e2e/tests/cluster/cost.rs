//! What a job costs the API server: the operator's writes, as the API server's own log has them.

use anyhow::{Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, PI, User, pi};
use e2e::cluster_fixture::{agent, deployed};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::{audit, wait_for};

use crate::with_cluster;

/// What comes on top of one write for each worker. Kubeflow's operator needs 11 in its best case, for
/// a job whose workers nobody removes; here they are removed, the launcher is told where they are, and
/// the progress of the start is written twice at the most.
const BESIDES_OVER_SSH: usize = 14;
/// The keys are removed as well.
const BESIDES_BY_AGENT: usize = 15;

#[test]
fn a_job_of_2_workers_costs_few_writes() -> Result<()> {
    let job = pi(Mpi::OpenMpi4, User::Mpiuser, 2);
    costs_few_writes("cost-2", &job, 2, BESIDES_OVER_SSH)
}

#[test]
fn a_job_of_16_workers_costs_few_writes() -> Result<()> {
    let job = pi(Mpi::OpenMpi4, User::Mpiuser, 16);
    costs_few_writes("cost-16", &job, 16, BESIDES_OVER_SSH)
}

#[test]
fn a_job_of_8_workers_by_the_agent_costs_few_writes() -> Result<()> {
    let job = agent::job(Mpi::OpenMpi4, 8, &["mpirun", "-n", "8", PI]);
    costs_few_writes("cost-agent", &job, 8, BESIDES_BY_AGENT)
}

fn costs_few_writes(name: &str, job: &MpiJob, workers: u32, besides: usize) -> Result<()> {
    with_cluster(name, |fixture| {
        let job = fixture.submit(job)?;
        job.succeeded_on_workers(workers)?;
        wait_for("workers to go", e2e::cluster_fixture::PATIENCE, || {
            Ok(fixture.pods("pi", "worker")?.is_empty().then_some(()))
        })?;
        let writes = fixture.writes_of(deployed::USER)?;
        let table = audit::table(&writes);
        say(&format!(
            "{workers} workers: {} writes\n{table}",
            writes.len()
        ));
        ensure!(
            !writes.is_empty(),
            "the log of the API server has none of the operator's writes"
        );
        let budget = workers as usize + besides;
        ensure!(
            writes.len() <= budget,
            "{} writes, {budget} are allowed:\n{table}",
            writes.len()
        );
        Ok(())
    })
}
