//! Workers that answer late, each by its own time: the launcher starts when the last one answers, and
//! not before. No try is lost, none is needed.
//!
//! A few runs of many workers, or as many as `MUSTER_DELAY_RUNS` says, several at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use e2e::cluster_fixture::agent;
use e2e::cluster_fixture::pi::Mpi;
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, selector};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use serde_json::{Value, json};

use crate::with_cluster;

const WORKERS: u32 = 16;
const AT_ONCE: u32 = 2;
/// Up to 20 s, in tenths, by the sum of the pod's name: another one for each worker and each run.
const DELAY: &str = "sum=$(hostname | cksum); tenths=$((${sum%% *} % 201)); \
                     sleep $((tenths / 10)).$((tenths % 10))";
const LINE: &str = "a rank on ";

#[test]
fn workers_that_answer_late_cost_no_try() -> Result<()> {
    let runs = std::env::var("MUSTER_DELAY_RUNS").ok();
    let runs: u32 = runs.map_or(Ok(2), |runs| {
        runs.parse().context("MUSTER_DELAY_RUNS is not a number")
    })?;
    with_cluster("delay", |fixture| {
        let (next, times) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        let worker = || -> Result<()> {
            loop {
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= runs {
                    return Ok(());
                }
                let time = run_late(fixture, run).with_context(|| format!("run {run}"))?;
                times
                    .lock()
                    .expect("nobody panics while holding it")
                    .push(time);
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(_) => bail!("a run panicked"),
                })
        })?;
        let mut times = times.into_inner().expect("all threads have ended");
        times.sort();
        let quantile = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64();
        say(&format!(
            "{runs} runs of {WORKERS} workers, each 0–20 s late: no restart, 1 attempt in all; last \
             worker ready to first rank's line: p50 {:.2} s, p99 {:.2} s",
            quantile(50),
            quantile(99)
        ));
        Ok(())
    })
}

/// Time from the last worker's readiness to the first rank's line.
fn run_late(fixture: &ClusterFixture, run: u32) -> Result<Duration> {
    let mpi = Mpi::ALL[run as usize % Mpi::ALL.len()];
    let job = fixture.submit(&late_job(mpi, &format!("late-{run}")))?;
    job.pods_until("all workers ready", "worker", |pods| {
        pods.len() == WORKERS as usize && pods.iter().all(is_ready)
    })?;
    let ready = SystemTime::now();
    job.succeeded()?;
    let pod = job.launcher_pod()?;
    let status = &pod["status"];
    ensure!(
        status["containerStatuses"][0]["restartCount"] == 0
            && status["initContainerStatuses"][0]["restartCount"] == 0,
        "the launcher was started again: {status}"
    );
    let said = first_line(fixture, &job)?;
    job.delete()?;
    // The watch may bring word of the last worker later than the line.
    let took = said.duration_since(ready).unwrap_or_default();
    let secs = took.as_secs_f64();
    say(&format!("{} run {run}: {secs:.2} s", mpi.name()));
    Ok(took)
}

fn late_job(mpi: Mpi, name: &str) -> MpiJob {
    let ranks = WORKERS.to_string();
    let say = format!("echo {LINE}$(hostname)");
    let delay = json!([{
        "name": "delay",
        "image": agent::image(mpi),
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", DELAY],
    }]);
    agent::job(mpi, WORKERS, &["mpirun", "-n", &ranks, "sh", "-c", &say])
        .with("/metadata/name", name)
        .launcher_restart_policy("Never")
        .clean_pod_policy("All")
        .with(
            "/spec/mpiReplicaSpecs/Worker/template/spec/initContainers",
            delay,
        )
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// When the first rank's line was written, by the container runtime's clock, which is ours.
fn first_line(fixture: &ClusterFixture, job: &Submitted<'_>) -> Result<SystemTime> {
    let selector = selector(job.name(), "launcher");
    let place = ["logs", "-n", &fixture.namespace, "-l", &selector];
    let text = fixture
        .cluster
        .kubectl(&[&place[..], &["--tail=-1", "--timestamps"]].concat())?;
    let ranks = text.lines().filter(|line| line.contains(LINE)).count();
    ensure!(ranks == WORKERS as usize, "{ranks} ranks spoke:\n{text}");
    let line = text.lines().find(|line| line.contains(LINE));
    let time = line.and_then(|line| line.split_whitespace().next());
    time_of(time.context("no rank spoke")?)
}

/// Of an RFC 3339 time, which the standard library cannot read.
fn time_of(text: &str) -> Result<SystemTime> {
    let output = std::process::Command::new("date")
        .args(["--date", text, "+%s.%N"])
        .output()
        .context("starting date")?;
    let secs: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .with_context(|| format!("`{text}` is no time"))?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(secs))
}
