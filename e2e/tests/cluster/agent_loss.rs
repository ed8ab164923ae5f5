//! A worker that is lost while the program runs is never a success, whatever the launcher says: its
//! daemon is killed, its pod removed, or its network cut.
//!
//! One try for each MPI and each kind of loss, or as many as `MUSTER_LOSS_TRIES` says.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::agent::{self, Verdict};
use e2e::cluster_fixture::pi::Mpi;
use e2e::condition;
use e2e::figures::say;

use crate::with_cluster;

/// Much longer than a loss may go unnoticed.
const RUN_SECS: u32 = 100;
/// A silent peer is given up after 8 s, a launcher that goes on after 2 s more.
const AT_MOST: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
enum Loss {
    Daemon,
    Pod,
    Network,
}

const LOSSES: [Loss; 3] = [Loss::Daemon, Loss::Pod, Loss::Network];

#[test]
fn open_mpi_4_loses_a_worker() -> Result<()> {
    loses_workers(Mpi::OpenMpi4)
}

#[test]
fn open_mpi_5_loses_a_worker() -> Result<()> {
    loses_workers(Mpi::OpenMpi5)
}

#[test]
fn mpich_loses_a_worker() -> Result<()> {
    loses_workers(Mpi::Mpich)
}

#[test]
fn intel_mpi_loses_a_worker() -> Result<()> {
    loses_workers(Mpi::Intel)
}

fn loses_workers(mpi: Mpi) -> Result<()> {
    let tries = std::env::var("MUSTER_LOSS_TRIES").ok();
    let tries = tries.map_or(Ok(LOSSES.len()), |tries| {
        tries.parse().context("MUSTER_LOSS_TRIES is not a number")
    })?;
    with_cluster(&format!("loss-{}", mpi.name()), |fixture| {
        let mut wrong = Vec::new();
        for (number, loss) in LOSSES.into_iter().cycle().take(tries).enumerate() {
            if let Err(error) = loses_a_worker(fixture, mpi, loss, number) {
                say(&format!("{} {loss:?} {number}: {error:#}", mpi.name()));
                wrong.push(format!("{loss:?} {number}: {error:#}"));
            }
        }
        ensure!(
            wrong.is_empty(),
            "{} of {tries} tries went wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        Ok(())
    })
}

fn loses_a_worker(fixture: &ClusterFixture, mpi: Mpi, loss: Loss, number: usize) -> Result<()> {
    let name = format!("loss-{number}");
    let job = agent::waiting_job(mpi, 3, RUN_SECS)
        .launcher_restart_policy("Never")
        .with("/metadata/name", name.as_str());
    let job = fixture.submit(&job)?;
    // A log is asked for again and again; the job's state is watched.
    job.running()?;
    job.said("ranks met at")?;
    let worker = job.worker(1);
    let since = Instant::now();
    match loss {
        Loss::Daemon => kill_daemon(fixture, mpi, &worker)?,
        Loss::Pod => fixture.kill_pod(&worker)?,
        Loss::Network => fixture.cut_network(&worker)?,
    }
    let failed = job.failed()?;
    let took = since.elapsed();
    let verdict = Verdict::of(&failed)?;
    say(&format!(
        "{} {loss:?}: failed after {:.1} s, {}: {}",
        mpi.name(),
        took.as_secs_f64(),
        verdict.reason,
        verdict.message
    ));
    ensure!(
        condition(&failed, "Succeeded") != Some("True"),
        "it failed and succeeded"
    );
    let reasons: &[&str] = match loss {
        Loss::Daemon => &["WorkerLost", "RankKilled"],
        Loss::Pod | Loss::Network => &["WorkerLost"],
    };
    verdict.expect(reasons, &[&worker])?;
    ensure!(took < AT_MOST, "it took {took:?}");
    job.delete()
}

/// Intel's first daemon may have become the second.
fn kill_daemon(fixture: &ClusterFixture, mpi: Mpi, worker: &str) -> Result<()> {
    let daemon = match mpi {
        Mpi::OpenMpi4 => "orted",
        Mpi::OpenMpi5 => "prted",
        Mpi::Mpich | Mpi::Intel => "hydra_",
    };
    fixture.exec(worker, &["pkill", "-KILL", daemon])?;
    Ok(())
}
