//! One job's whole life: made, running, succeeded, cleaned up (B1 to B8, B10, B21). Decides when each
//! part of it begins and ends; must not know how often it is repeated.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::audit::Audit;
use serde_json::{Value, json};

use super::ledger::{Ledger, secs};
use super::operators::{Process, Side};
use super::rig::{Rig, Tenant};
use super::sightings::Sightings;

const JOB: &str = "life";
const WARM_UP: &str = "warm-up";
/// The writes that follow the last change of a pod are over by then, and so is the other operator's
/// debt to its own rate limits after the warm-up.
const SETTLED: Duration = Duration::from_secs(3);

/// Starts an operator and lets it run one small job, so that it is known to work and its connections
/// are open.
pub(super) fn warmed_up(rig: &Rig, side: Side, tenant: &Tenant) -> Result<Process> {
    let operator = Process::start(rig, side)?;
    let sightings = Sightings::start(tenant, "mpijobs")?;
    tenant.submit(&tenant.job(WARM_UP, 1)?)?;
    reach(&sightings, "Running", 1, side, 1)?;
    tenant.end_launcher(WARM_UP)?;
    reach(&sightings, "Succeeded", 1, side, 1)?;
    tenant.await_pods_at_most(1, side.patience(1))?;
    tenant.clear()?;
    thread::sleep(SETTLED);
    Ok(operator)
}

fn reach(
    sightings: &Sightings,
    condition: &str,
    jobs: usize,
    side: Side,
    workers: usize,
) -> Result<()> {
    let reached = sightings.wait(condition, jobs, side.patience(workers))?;
    ensure!(reached == jobs, "{side:?}: the job was never {condition}");
    Ok(())
}

/// Runs one job and takes the numbers of its life.
pub(super) fn sample(rig: &Rig, side: Side, workers: usize) -> Result<Value> {
    let tenant = rig.tenant("life")?;
    let mut operator = warmed_up(rig, side, &tenant)?;
    let audit = Audit::from_now(&rig.cluster)?;
    let (jobs, maps) = (
        Sightings::start(&tenant, "mpijobs")?,
        Sightings::start(&tenant, "configmaps")?,
    );
    let cpu_before = operator.cpu_secs()?;
    tenant.submit(&tenant.job(JOB, workers)?)?;
    reach(&jobs, "Running", 1, side, workers)?;
    let (resident, _) = operator.memory_mib()?;
    thread::sleep(SETTLED);
    tenant.end_launcher(JOB)?;
    reach(&jobs, "Succeeded", 1, side, workers)?;
    tenant.await_pods_at_most(1, side.patience(workers))?;
    thread::sleep(SETTLED);
    let cpu = operator.cpu_secs()? - cpu_before;
    operator.assert_alive()?;
    let ledger = Ledger::read(&audit, &tenant.namespace, &side.account(rig).user)?;
    let seen = |condition| {
        let seen = jobs.seen(condition, JOB);
        ledger.status_written(JOB, seen.expect("it was just waited for"))
    };
    let (submitted, running, succeeded) =
        (ledger.submitted()?, seen("Running")?, seen("Succeeded")?);
    ensure!(
        ledger.pods_made() >= workers,
        "{side:?} made fewer pods than workers"
    );
    let writes = ledger.writes().count();
    let until_running = ledger.writes().filter(|write| write.received <= running);
    let (ended, gone) = (ledger.launcher_ended()?, ledger.last_pod_gone()?);
    let sample = json!({
        "workers": workers,
        "side": side.name(),
        "writes": writes,
        "otherWrites": writes - ledger.pods_made(),
        "writesUntilRunning": until_running.count(),
        "wasted": ledger.wasted(jobs.modified()?, maps.modified()?),
        "depth": ledger.depth(),
        "lastWorkerSecs": secs(submitted, ledger.last_pod_made()?),
        "runningSecs": secs(submitted, running),
        "succeededSecs": secs(ended, succeeded),
        "cpuSecs": cpu,
        "residentMib": resident,
        "deletes": ledger.deletes(),
        "cleanedUpSecs": secs(ended, gone),
    });
    drop((jobs, maps));
    operator.end()?;
    tenant.close()?;
    Ok(sample)
}
