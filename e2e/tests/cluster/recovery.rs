//! A rank that is killed costs the program an attempt and nothing else: the same pods, the same hosts, for
//! every MPI. `MUSTER_KILLS=20` kills more often than `make test` has time for.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::agent::{self, MISBEHAVE, MISBEHAVE_PAUSE};
use e2e::cluster_fixture::pi::Mpi;
use e2e::figures::say;
use serde_json::{Value, json};

use crate::with_cluster;

/// How often a rank is killed, in `make test`.
const KILLS: usize = 3;
const WORKERS: u32 = 3;
/// From the death of a rank until all ranks have met again; Open MPI takes two seconds to notice it.
const AT_MOST: Duration = Duration::from_secs(15);

#[test]
fn open_mpi_4_starts_again_in_the_same_pods() -> Result<()> {
    starts_again(Mpi::OpenMpi4)
}

#[test]
fn open_mpi_5_starts_again_in_the_same_pods() -> Result<()> {
    starts_again(Mpi::OpenMpi5)
}

#[test]
fn mpich_starts_again_in_the_same_pods() -> Result<()> {
    starts_again(Mpi::Mpich)
}

#[test]
fn intel_mpi_starts_again_in_the_same_pods() -> Result<()> {
    starts_again(Mpi::Intel)
}

fn kills() -> Result<usize> {
    match std::env::var("MUSTER_KILLS") {
        Ok(text) => text.parse().with_context(|| format!("MUSTER_KILLS={text}")),
        Err(_) => Ok(KILLS),
    }
}

fn starts_again(mpi: Mpi) -> Result<()> {
    let kills = kills()?;
    // The last attempt lasts long enough for a look at its pods.
    let script = format!(
        "[ $MUSTER_ATTEMPT -gt {kills} ] && exec mpirun -n {WORKERS} {MISBEHAVE} 10 wait; \
         exec mpirun -n {WORKERS} {MISBEHAVE} 2 kill"
    );
    with_cluster(&format!("again-{}", mpi.name()), |fixture| {
        let job = agent::job(mpi, WORKERS, &["sh", "-c", &script])
            .with("/spec/muster/recovery", json!({"restarts": kills}));
        let job = fixture.submit(&job)?;
        let before = uids(&job.workers_run(WORKERS)?);
        job.said(&format!("attempt {} of at most {}", kills + 1, kills + 1))?;
        let after = uids(&fixture.pods(job.name(), "worker")?);
        ensure!(before == after, "pods were replaced: {before:?}, {after:?}");
        let succeeded = job.succeeded()?;
        let output = job.output()?.text;
        let took = times(&output)?;
        ensure!(took.len() == kills, "{took:?}\n{output}");
        let message = succeeded["status"]["muster"]["message"].as_str();
        let message = message.unwrap_or_default();
        let median = took[took.len() / 2];
        say(&format!(
            "{}: ranks met again {median:.2?} after one was killed, at most {:.2?}: {message}",
            mpi.name(),
            took[took.len() - 1]
        ));
        ensure!(took[took.len() - 1] <= AT_MOST, "{took:?}\n{output}");
        ensure!(
            message.contains(&format!("attempt {} succeeded", kills + 1)),
            "{succeeded:#}"
        );
        ensure!(job.tries()? == 1, "the launcher's pod was replaced");
        Ok(())
    })
}

fn uids(pods: &[Value]) -> Vec<String> {
    let mut uids: Vec<String> = pods
        .iter()
        .map(|pod| pod["metadata"]["uid"].to_string())
        .collect();
    uids.sort();
    uids
}

/// From each death until the ranks of the next attempt met, the shortest first.
fn times(output: &str) -> Result<Vec<Duration>> {
    let met = output.lines().filter_map(|line| {
        let (_, secs) = line.split_once("ranks met at ")?;
        secs.trim().parse::<f64>().ok()
    });
    let met: Vec<f64> = met.collect();
    let pause = MISBEHAVE_PAUSE.as_secs_f64();
    let took = met
        .windows(2)
        .map(|pair| Duration::try_from_secs_f64(pair[1] - pair[0] - pause));
    let mut took: Vec<Duration> = took.collect::<Result<_, _>>()?;
    took.sort();
    Ok(took)
}
