//! An operator that starts again beside jobs that run (B16), and the memory that their pods cost it
//! (B14). Decides when it has come to rest; must not know how often it is repeated.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use e2e::audit::{Audit, Request};
use serde_json::{Value, json};

use super::crowd::Crowd;
use super::ledger::secs;
use super::life::warmed_up;
use super::operators::{Process, Side};
use super::rig::{Rig, at_once};
use super::sightings::Sightings;

/// Whoever asked for nothing for so long has come to rest.
const REST: Duration = Duration::from_secs(5);
/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A restart that takes longer has no end.
const REST_MAX: Duration = Duration::from_secs(300);

/// Starts an operator beside its own jobs.
pub(super) fn sample(rig: &Rig, side: Side, crowd: Crowd) -> Result<Value> {
    let tenant = rig.tenant("restart")?;
    // At the flags of its manifest the other operator would take an hour to make them.
    let maker = if side == Side::P0 { Side::P1 } else { side };
    let operator = warmed_up(rig, maker, &tenant)?;
    let sightings = Sightings::start(&tenant, "mpijobs")?;
    at_once(crowd.jobs, |number| {
        tenant.submit(&tenant.job(&format!("restart-{number}"), crowd.workers)?)
    })?;
    let ran = sightings.wait("Running", crowd.jobs, maker.patience(crowd.pods()))?;
    drop(sightings);
    thread::sleep(REST);
    operator.end()?;

    let audit = Audit::from_now(&rig.cluster)?;
    let mut operator = Process::start(rig, side)?;
    let requests = at_rest(&audit, &side.account(rig).user)?;
    let (resident, peak) = operator.memory_mib()?;
    let cpu = operator.cpu_secs()?;
    operator.assert_alive()?;
    let last = requests.iter().map(|request| request.answered).max();
    let writes = requests.iter().filter(|request| request.is_write());
    let sample = json!({
        "side": side.name(),
        "jobs": crowd.jobs,
        "workers": crowd.workers,
        "ranJobs": ran,
        "pods": tenant.count("pods")?,
        "writes": writes.count(),
        "requests": requests.len(),
        "restSecs": last.map(|last| secs(operator.begun, last)),
        "cpuSecs": cpu,
        "residentMib": resident,
        "peakMib": peak,
    });
    operator.end()?;
    tenant.close()?;
    Ok(sample)
}

/// What a user asked for since, once it asks for nothing more. The election goes on, and so does the
/// search for APIs that are not installed.
pub(super) fn at_rest(audit: &Audit, user: &str) -> Result<Vec<Request>> {
    let begun = Instant::now();
    let mut last = (0, Instant::now());
    while begun.elapsed() < REST_MAX {
        thread::sleep(LOOK);
        let mut requests = audit.requests_of(user)?;
        requests.retain(|request| !request.is_election() && !request.is_discovery());
        if requests.len() > last.0 {
            last = (requests.len(), Instant::now());
        } else if last.0 > 0 && last.1.elapsed() > REST {
            return Ok(requests);
        }
    }
    bail!("{user} still asks for things after {REST_MAX:?}")
}
