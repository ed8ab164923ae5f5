//! What a job costs the API server: the operator's writes, as the API server's own log has them.

use anyhow::{Result, ensure};
use e2e::figures::say;
use e2e::real::deployed;
use e2e::real::pi::{Mpi, User, pi};
use e2e::{audit, wait_for};

use crate::in_lab;

#[test]
fn a_job_of_2_workers_costs_few_writes() -> Result<()> {
    costs_few_writes(2)
}

#[test]
fn a_job_of_16_workers_costs_few_writes() -> Result<()> {
    costs_few_writes(16)
}

/// One write for each worker and a fixed number besides: the best case of Kubeflow's operator for a
/// job whose workers nobody removes. Here they are removed as well.
fn costs_few_writes(workers: u32) -> Result<()> {
    in_lab(&format!("cost-{workers}"), |lab| {
        let job = lab.submit(&pi(Mpi::OpenMpi4, User::Mpiuser, workers))?;
        job.succeeded_on_workers(workers)?;
        wait_for("workers to go", e2e::real::PATIENCE, || {
            Ok(lab.pods("pi", "worker")?.is_empty().then_some(()))
        })?;
        let writes = lab.writes_of(deployed::USER)?;
        let table = audit::table(&writes);
        say(&format!(
            "{workers} workers: {} writes\n{table}",
            writes.len()
        ));
        ensure!(
            !writes.is_empty(),
            "the log of the API server has none of the operator's writes"
        );
        let budget = workers as usize + 11;
        ensure!(
            writes.len() <= budget,
            "{} writes, {budget} are allowed:\n{table}",
            writes.len()
        );
        Ok(())
    })
}
