//! A worker that is lost costs the job that one pod: it is created again, and the program goes on with it and
//! with the pods that are still there. For every MPI, and for each way to lose a worker.
//! `MUSTER_LOSSES=20 MUSTER_WORKERS=16` loses more of them, in a larger job, than `make test` has time for.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::agent::{self, MISBEHAVE};
use e2e::cluster_fixture::pi::Mpi;
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, deployed};
use e2e::figures::say;
use e2e::{audit, number, wait_for};
use serde_json::{Value, json};

use crate::with_cluster;

const WORKERS: u32 = 4;
/// What the operator writes for one of them, whatever the size of the job.
const WRITES_MAX: usize = 10;

/// How a worker is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Its pod is deleted, as when its node is drained.
    Deleted,
    /// Its agent is killed, so that its pod fails.
    Failed,
    /// Its pod vanishes, as with a node that is removed.
    Removed,
}

const LOSSES: [Loss; 3] = [Loss::Deleted, Loss::Failed, Loss::Removed];

#[test]
fn open_mpi_4_goes_on_with_another_worker() -> Result<()> {
    goes_on(Mpi::OpenMpi4)
}

#[test]
fn open_mpi_5_goes_on_with_another_worker() -> Result<()> {
    goes_on(Mpi::OpenMpi5)
}

#[test]
fn mpich_goes_on_with_another_worker() -> Result<()> {
    goes_on(Mpi::Mpich)
}

#[test]
fn intel_mpi_goes_on_with_another_worker() -> Result<()> {
    goes_on(Mpi::Intel)
}

fn goes_on(mpi: Mpi) -> Result<()> {
    let losses = usize::try_from(number("MUSTER_LOSSES", LOSSES.len().try_into()?)?)?;
    let workers = number("MUSTER_WORKERS", WORKERS)?;
    let script = format!(
        "[ $MUSTER_ATTEMPT -gt {losses} ] && exec mpirun -n {workers} {MISBEHAVE} 1 wait; \
         exec mpirun -n {workers} {MISBEHAVE} 900 wait"
    );
    with_cluster(&format!("replaced-{}", mpi.name()), |fixture| {
        let job = agent::job(mpi, workers, &["sh", "-c", &script]).with(
            "/spec/muster/recovery",
            json!({"restarts": losses, "graceSeconds": 5}),
        );
        let job = fixture.submit(&job)?;
        job.workers_run(workers)?;
        for (number, loss) in LOSSES.into_iter().cycle().take(losses).enumerate() {
            lose_one(fixture, &job, loss, number, workers)
                .with_context(|| format!("{loss:?}, number {number}"))?;
        }
        let succeeded = job.succeeded()?;
        let message = succeeded["status"]["muster"]["message"].as_str();
        let message = message.unwrap_or_default();
        say(&format!("{}: {message}", mpi.name()));
        let last = format!("attempt {} succeeded", losses + 1);
        ensure!(message.contains(&last), "{succeeded:#}");
        let lost = &succeeded["status"]["muster"]["lostWorkers"];
        // Of the others, the operator sees no pod that it has to remove.
        let failed = LOSSES.into_iter().cycle().take(losses);
        let failed = failed.filter(|loss| matches!(loss, Loss::Failed)).count();
        ensure!(*lost == json!(failed), "{lost} lost workers, not {failed}");
        ensure!(job.tries()? == 1, "the launcher's pod was replaced");
        Ok(())
    })
}

fn lose_one(
    fixture: &ClusterFixture,
    job: &Submitted<'_>,
    loss: Loss,
    number: usize,
    workers: u32,
) -> Result<()> {
    have_met(job, number + 1)?;
    let before = uids(&fixture.pods(job.name(), "worker")?);
    let written = fixture.writes_of(deployed::USER)?.len();
    let index = u32::try_from(number)? % workers;
    let worker = job.worker(index);
    let since = Instant::now();
    match loss {
        Loss::Deleted => fixture.delete_pod(&worker)?,
        Loss::Failed => fixture.kill_agent(&worker)?,
        Loss::Removed => fixture.kill_pod(&worker)?,
    }
    have_met(job, number + 2)?;
    let took = since.elapsed();
    let after = uids(&fixture.pods(job.name(), "worker")?);
    let replaced: Vec<&String> = after.iter().filter(|uid| !before.contains(uid)).collect();
    ensure!(
        replaced.len() == 1 && after.len() == before.len(),
        "one pod is replaced: {before:?}, {after:?}"
    );
    let writes = fixture.writes_of(deployed::USER)?.split_off(written);
    say(&format!(
        "{loss:?}: {worker} was replaced, and the ranks met again after {:.1} s; {} writes",
        took.as_secs_f64(),
        writes.len()
    ));
    let table = audit::table(&writes);
    ensure!(
        writes.len() <= WRITES_MAX,
        "{} writes:\n{table}",
        writes.len()
    );
    Ok(())
}

/// All ranks have met so often.
fn have_met(job: &Submitted<'_>, times: usize) -> Result<()> {
    wait_for(&format!("{times} meetings of all ranks"), PATIENCE, || {
        let met = job.output()?.text.matches("ranks met at").count();
        Ok((met >= times).then_some(()))
    })
}

fn uids(pods: &[Value]) -> Vec<String> {
    let uid = |pod: &Value| pod["metadata"]["uid"].to_string();
    pods.iter().map(uid).collect()
}
