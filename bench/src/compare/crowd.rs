//! Many jobs at once in one namespace: how fast they all run (B9), and what they cost until they are
//! over (B11). Decides when the measurement ends, also if some jobs never get there; must not know how
//! often it is repeated.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::audit::Audit;
use e2e::fake_kubelet::ENDS_AFTER_MS;
use serde_json::{Value, json};

use super::ledger::{Ledger, secs};
use super::life::warmed_up;
use super::operators::Side;
use super::rig::{Rig, at_once};
use super::sightings::Sightings;

/// Long enough that every launcher runs beside the last worker's start.
const PROGRAM: Duration = Duration::from_secs(10);
/// Trailing writes are over by then.
const SETTLED: Duration = Duration::from_secs(3);
/// A job that has not changed for so long although all its pods have is not going to.
const STUCK: Duration = Duration::from_secs(30);

/// So many jobs of so many workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    pub(super) jobs: usize,
    pub(super) workers: usize,
    /// To the end of their lives, and not only until they run.
    pub(super) to_the_end: bool,
}

impl Crowd {
    pub(super) fn pods(&self) -> usize {
        self.jobs * (self.workers + 1)
    }
}

/// Runs all jobs and takes the numbers.
pub(super) fn sample(rig: &Rig, side: Side, crowd: Crowd) -> Result<Value> {
    let tenant = rig.tenant("crowd")?;
    let mut operator = warmed_up(rig, side, &tenant)?;
    let audit = Audit::from_now(&rig.cluster)?;
    let sightings = Sightings::start(&tenant, "mpijobs")?;
    let cpu_before = operator.cpu_secs()?;
    let end = format!(
        "/spec/mpiReplicaSpecs/Launcher/template/metadata/annotations/{}",
        ENDS_AFTER_MS.replace('/', "~1")
    );
    at_once(crowd.jobs, |number| {
        let job = tenant.job(&format!("crowd-{number}"), crowd.workers)?;
        tenant.submit(&match crowd.to_the_end {
            true => job.with(&end, PROGRAM.as_millis().to_string()),
            false => job,
        })
    })?;
    let patience = side.patience(crowd.pods());
    let mut succeeded = 0;
    if crowd.to_the_end {
        succeeded = sightings.wait("Succeeded", crowd.jobs, patience)?;
        // Some operators leave workers behind; that is a result, and no reason to wait forever.
        let left = tenant.await_pods_at_most(crowd.jobs, STUCK);
        if let Err(error) = left {
            eprintln!("{side:?}: {error:#}");
        }
    } else {
        sightings.wait("Running", crowd.jobs, patience)?;
    }
    thread::sleep(SETTLED);
    let cpu = operator.cpu_secs()? - cpu_before;
    operator.assert_alive()?;
    let ledger = Ledger::read(&audit, &tenant.namespace, &side.account(rig).user)?;
    let submitted = ledger.submitted()?;
    let running = sightings.all("Running");
    ensure!(!running.is_empty(), "{side:?}: no job ever ran");
    let mut times = Vec::new();
    for (job, seen) in &running {
        times.push(secs(submitted, ledger.status_written(job, *seen)?));
    }
    let last = times.iter().copied().fold(0.0, f64::max);
    let sample = json!({
        "side": side.name(),
        "jobs": crowd.jobs,
        "workers": crowd.workers,
        "ranJobs": running.len(),
        "succeededJobs": succeeded,
        "podsLeft": tenant.count("pods")?.saturating_sub(crowd.jobs),
        "allRunningSecs": last,
        "jobsPerSecond": running.len() as f64 / last,
        "writes": ledger.writes().count(),
        "cpuSecs": cpu,
    });
    drop(sightings);
    operator.end()?;
    tenant.close()?;
    Ok(sample)
}
