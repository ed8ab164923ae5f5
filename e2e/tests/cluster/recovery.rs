//! A rank that is killed costs the program an attempt and nothing else: the same pods, the same hosts, for
//! every MPI. `MUSTER_KILLS=20 MUSTER_WORKERS=16` kills more often, in a larger job, than `make test` has time for.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::agent::{self, MISBEHAVE, MISBEHAVE_PAUSE};
use e2e::cluster_fixture::pi::Mpi;
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, deployed};
use e2e::figures::say;
use e2e::{audit, number, wait_for};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::with_cluster;

/// How often a rank is killed, in `make test`.
const KILLS: u32 = 3;
const WORKERS: u32 = 3;
/// The status may say a moment after the first meeting that the job runs. Less than one for each restart.
const LATE_WRITES_MAX: usize = 2;
/// From the death of a rank until all ranks have met again.
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

fn starts_again(mpi: Mpi) -> Result<()> {
    let kills = number("MUSTER_KILLS", KILLS)?;
    let workers = number("MUSTER_WORKERS", WORKERS)?;
    // The last attempt lasts long enough for a look at its pods.
    let script = format!(
        "[ $MUSTER_ATTEMPT -gt {kills} ] && exec mpirun -n {workers} {MISBEHAVE} 10 wait; \
         exec mpirun -n {workers} {MISBEHAVE} 2 kill"
    );
    with_cluster(&format!("again-{}", mpi.name()), |fixture| {
        let job = agent::job(mpi, workers, &["sh", "-c", &script])
            .with("/spec/muster/recovery", json!({"restarts": kills}));
        let job = fixture.submit(&job)?;
        job.said("ranks met at")?;
        let before = uids(&job.workers_run(workers)?);
        let written = fixture.writes_of(deployed::USER)?.len();
        for attempt in 2..=kills + 1 {
            job.said(&format!("attempt {attempt} of at most {}", kills + 1))?;
        }
        let writes = fixture.writes_of(deployed::USER)?.split_off(written);
        let after = uids(&fixture.pods(job.name(), "worker")?);
        ensure!(before == after, "pods were replaced: {before:?}, {after:?}");
        // The kubelet, too, writes the status of each pod once more after a minute, whatever happens in it.
        let table = audit::table(&writes);
        ensure!(
            writes.len() <= LATE_WRITES_MAX,
            "the operator wrote:\n{table}"
        );
        let succeeded = job.succeeded()?;
        let message = succeeded["status"]["muster"]["message"].as_str();
        let message = message.unwrap_or_default();
        let restarts = restarts(fixture, &job)?;
        let written = writes.len();
        say(&format!(
            "{}: {workers} workers, {written} writes: {message}\n{}",
            mpi.name(),
            figures(&restarts)
        ));
        ensure!(restarts.len() == kills as usize, "{}", restarts.len());
        let longest = restarts.iter().map(|restart| restart.to_met).max();
        ensure!(longest <= Some(AT_MOST), "{longest:?}");
        ensure!(
            message.contains(&format!("attempt {} succeeded", kills + 1)),
            "{succeeded:#}"
        );
        ensure!(job.tries()? == 1, "the launcher's pod was replaced");
        Ok(())
    })
}

fn uids(pods: &[Value]) -> Vec<String> {
    let uid = |pod: &Value| pod["metadata"]["uid"].to_string();
    let mut uids: Vec<String> = pods.iter().map(uid).collect();
    uids.sort();
    uids
}

/// What followed on a death.
struct Restart {
    /// Until the launcher's agent began the next attempt.
    to_attempt: Duration,
    /// Until all ranks had met again.
    to_met: Duration,
}

/// All of them, in their order, from the times in the launcher's log.
fn restarts(fixture: &ClusterFixture, job: &Submitted<'_>) -> Result<Vec<Restart>> {
    let launcher = job.launcher_pod()?;
    let launcher = launcher["metadata"]["name"].as_str();
    let launcher = launcher.context("every pod has a name")?;
    // The last line may be a moment late.
    let log = wait_for("the launcher's log", PATIENCE, || {
        let log = fixture.timed_log(launcher)?;
        let lines = |words: &str| log.matches(words).count();
        let is_whole = lines("ranks met at") > lines("of at most");
        Ok(is_whole.then_some(log))
    })?;
    let mut restarts = Vec::new();
    let (mut died, mut began) = (None, None);
    for line in log.lines() {
        if line.contains(" of at most ") {
            let (time, _) = line.split_once(' ').context("a line without a time")?;
            began = Some(time.parse::<Timestamp>()?);
        }
        let Some((_, met)) = line.split_once("ranks met at ") else {
            continue;
        };
        let met = Timestamp::UNIX_EPOCH + Duration::from_secs_f64(met.trim().parse()?);
        if let (Some(died), Some(began)) = (died, began) {
            restarts.push(Restart {
                to_attempt: between(died, began)?,
                to_met: between(died, met)?,
            });
        }
        died = Some(met + MISBEHAVE_PAUSE);
    }
    Ok(restarts)
}

fn between(from: Timestamp, to: Timestamp) -> Result<Duration> {
    Ok(to.duration_since(from).try_into()?)
}

/// The middle one and the longest of each time.
fn figures(restarts: &[Restart]) -> String {
    let figure = |what: &str, time: fn(&Restart) -> Duration| {
        let mut times: Vec<_> = restarts.iter().map(time).collect();
        times.sort();
        let middle = times.get(times.len() / 2).copied().unwrap_or_default();
        let longest = times.last().copied().unwrap_or_default();
        format!("{what}: {middle:.2?}, at most {longest:.2?}")
    };
    [
        figure("from a death to the next attempt", |one| one.to_attempt),
        figure("from there until all ranks met", |one| {
            one.to_met - one.to_attempt
        }),
        figure("from a death until all ranks met", |one| one.to_met),
    ]
    .join("\n")
}
