//! A worker that is lost costs a job of a thousand workers as little as a small one: a few writes, and a moment of the
//! operator's time. `MUSTER_LOSSES=20` loses more of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::uid;
use e2e::audit::{Audit, Request, table};
use e2e::figures::say;
use e2e::{number, wait_for};
use serde_json::{Value, json};

use super::fixture::{Rig, Tenant, clear, ensure_shorter};

const WORKERS: u32 = 1000;
const LOSSES: u32 = 5;
/// What one of them may cost, whatever the size of the job.
const WRITES_MAX: usize = 10;
/// From the failure of a pod that the API server has stored until the API server is asked for the next pod, without
/// the time that the API server takes for what is asked of it in between.
const OPERATOR_MAX: Duration = Duration::from_millis(100);
/// The first pods of a thousand, and the launcher.
const RUN_MAX: Duration = Duration::from_secs(180);
const REPLACED_MAX: Duration = Duration::from_secs(60);
/// A worker is not replaced before this age. An operator that has nothing to write for as long has nothing to
/// write.
const SETTLED: Duration = Duration::from_secs(11);
const CLEAR_MAX: Duration = Duration::from_secs(300);

#[test]
fn a_lost_worker_costs_a_big_job_little() -> Result<()> {
    let rig = Rig::new()?;
    let tenant = rig.tenant("lost")?;
    let result = loses(&rig, &tenant).with_context(|| rig.operator.last_words());
    result.and(clear(&tenant.fixture, CLEAR_MAX))
}

fn loses(rig: &Rig, tenant: &Tenant) -> Result<()> {
    let workers = number("MUSTER_BIG_JOB_WORKERS", WORKERS)?;
    let losses = number("MUSTER_LOSSES", LOSSES)?;
    let job = tenant
        .job("big", workers)
        .launcher_command(&["mpirun", "solve"])
        .with("/spec/muster/transport", "Agent")
        .with("/spec/muster/recovery", json!({"restarts": 3}));
    tenant.fixture.submit(&job)?;
    tenant
        .fixture
        .await_job("big", "it runs", RUN_MAX, |job| runs(job, workers, 0))?;
    let mut times = Vec::new();
    for loss in 1..=losses {
        times.push(lose_one(rig, tenant, workers, loss)?);
    }
    times.sort();
    let middle = times[times.len() / 2];
    let longest = times.last().copied().unwrap_or_default();
    say(&format!(
        "{workers} workers: of the replacement of one, the operator's own part took {middle:.1?}, at most \
         {longest:.1?}"
    ));
    ensure_shorter("the operator's part of a replacement", middle, OPERATOR_MAX)?;
    rig.operator.assert_never_restarted()?;
    tenant.kubelet.assert_well()
}

/// All workers are there again after so many losses.
fn runs(job: &Value, workers: u32, losses: u32) -> bool {
    let muster = &job["status"]["muster"];
    let lost = muster["lostWorkers"].as_u64().unwrap_or_default();
    muster["phase"] == "Running"
        && lost == u64::from(losses)
        && job["status"]["replicaStatuses"]["Worker"]["active"] == workers
}

/// Returns the operator's own part of it.
fn lose_one(rig: &Rig, tenant: &Tenant, workers: u32, loss: u32) -> Result<Duration> {
    let fixture = &tenant.fixture;
    // Also the pod that replaced the one before must be old enough.
    std::thread::sleep(SETTLED);
    let name = format!("big-worker-{}", loss * 7 % workers);
    let pod = || fixture.api.get(&fixture.path("pods", &name));
    let before = pod()?.with_context(|| format!("there is no {name}"))?;
    let audit = Audit::from_now(&rig.cluster)?;
    tenant.kubelet.end(&name, 1)?;
    wait_for(&format!("another {name} that runs"), REPLACED_MAX, || {
        let next = pod()?.filter(|next| uid(next) != uid(&before));
        Ok(next.filter(|next| next["status"]["phase"] == "Running"))
    })?;
    fixture.await_job("big", "all workers are there", REPLACED_MAX, |job| {
        runs(job, workers, loss)
    })?;
    std::thread::sleep(SETTLED);
    ensure!(
        tenant.pods()? == workers as usize + 1,
        "not all others stayed"
    );
    let requests = audit.requests_in(&fixture.namespace)?;
    let own = |request: &&Request| request.user == rig.account.user && request.is_write();
    let writes: Vec<Request> = requests.iter().filter(own).cloned().collect();
    let table = table(&writes);
    ensure!(
        writes.len() <= WRITES_MAX,
        "{} writes:\n{table}",
        writes.len()
    );
    let failed = requests.iter().find(|request| {
        request.resource == "pods/status" && request.name == name && request.verb == "patch"
    });
    let failed = failed.context("nobody said that the pod failed")?;
    let of_name = |write: &&Request| write.verb == "create" && write.resource == "pods";
    let created = writes.iter().find(of_name);
    let created = created.context("no pod was created")?;
    let whole: Duration = (created.received.duration_since(failed.answered)).try_into()?;
    let before = writes
        .iter()
        .filter(|write| write.answered <= created.received);
    let asked: Duration = before
        .map(|write| Duration::try_from(write.answered.duration_since(write.received)))
        .sum::<Result<Duration, _>>()?;
    let own = whole.saturating_sub(asked);
    say(&format!(
        "{name}: {} writes, {whole:.1?} from its failure to its successor, of which the operator's own \
         {own:.1?}\n{table}",
        writes.len()
    ));
    Ok(own)
}
