//! A job with more workers than anybody has nodes: it is made, runs, is scaled down and up, suspended
//! and resumed, succeeds and is cleaned up, within the memory that the operator is shipped with, and
//! nobody beside it waits for it. `MUSTER_BIG_JOB_WORKERS=10000` is the size that is promised.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::audit::{Audit, table};
use e2e::condition;
use e2e::figures::say;
use e2e::{number, wait_for};
use serde_json::{Value, json};

use super::fixture::{Rig, Tenant, Times, clear, ensure_shorter};

/// Enough to see what grows with the number of workers, in a minute.
const WORKERS: u32 = 1000;
/// How much later a small job may run because of the big one beside it.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// Nobody notices that the operator did something else for so long.
const BLOCK_MAX: Duration = Duration::from_millis(50);
/// So many small jobs tell how long one takes alone, before the big one and after it.
const ALONE: usize = 5;
/// So many tell how long one takes beside the big one, which may then have all the room.
const BESIDE_MAX: usize = 20;
/// Of a whole life, beyond the creation of each pod: objects, deletes of collections, and a status
/// for each change that lasts a second.
const OVERHEAD_MAX: usize = 150;

const CLEAR_MAX: Duration = Duration::from_secs(300);

/// A life, and what it took.
struct Life<'a> {
    rig: &'a Rig,
    tenant: &'a Tenant,
    workers: usize,
    figures: String,
}

impl Life<'_> {
    /// What grows with the number of workers may take so long.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
            + Duration::from_millis(60) * u32::try_from(self.workers).unwrap_or(u32::MAX)
    }

    /// One step: something is asked for, and then it holds of the pods and of the job.
    fn step(
        &mut self,
        what: &str,
        ask: impl FnOnce() -> Result<()>,
        pods: usize,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        ask().with_context(|| what.to_owned())?;
        let patience = self.patience();
        let counted = wait_for(&format!("{what}: {pods} pods"), patience, || {
            // An operator that was started again may get there too, but not as it should.
            let restarted = self.rig.operator.assert_never_restarted();
            let there = self.tenant.pods()? == pods;
            Ok((there || restarted.is_err()).then_some(restarted))
        });
        counted.with_context(|| format!("there are {:?}", self.tenant.pods()))??;
        let made = start.elapsed();
        self.tenant
            .fixture
            .await_job("big", what, patience, holds)?;
        let usage = self.rig.operator.usage()?;
        writeln!(
            self.figures,
            "{what:<24} pods {made:>6.1?}, status {:>6.1?}; {usage}",
            start.elapsed()
        )?;
        Ok(())
    }
}

fn scaled(workers: usize) -> Value {
    json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": workers}}}})
}

fn suspended(suspend: bool) -> Value {
    json!({"spec": {"runPolicy": {"suspend": suspend}}})
}

/// The program runs, and so many workers with it.
fn runs(job: &Value, workers: usize) -> bool {
    condition(job, "Running") == Some("True")
        && job["status"]["replicaStatuses"]["Worker"]["active"] == workers
}

/// Makes the job, and small ones beside it while its pods are being made.
fn make(life: &mut Life<'_>, neighbour: &Tenant, transport: &str) -> Result<Vec<Duration>> {
    let (tenant, workers) = (life.tenant, life.workers);
    let job = tenant.job("big", u32::try_from(workers)?);
    let job = job.with("/spec/muster/transport", transport);
    let (made, patience) = (AtomicBool::new(false), life.patience());
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut beside = Vec::new();
            wait_for("the first pods of the big job", patience, || {
                Ok((tenant.pods()? > 0).then_some(()))
            })?;
            while !made.load(Ordering::SeqCst) && beside.len() < BESIDE_MAX {
                let name = format!("beside-{}", beside.len());
                beside.push(neighbour.start_small_job(&name)?.took());
            }
            Ok(beside)
        });
        let done = life.step(
            "made",
            || tenant.fixture.submit(&job).map(drop),
            workers + 1,
            |job| runs(job, workers),
        );
        made.store(true, Ordering::SeqCst);
        let beside = beside
            .join()
            .expect("a thread that measures does not panic");
        done?;
        beside
    })
}

/// All steps after the first.
fn live_on(life: &mut Life<'_>) -> Result<()> {
    let (few, half) = ((life.workers / 100).max(1), life.workers / 2);
    let tenant = life.tenant;
    let edit = |patch: Value| move || tenant.fixture.edit("big", &patch).map(drop);
    life.step("scaled down", edit(scaled(few)), few + 1, |job| {
        runs(job, few)
    })?;
    life.step("scaled up", edit(scaled(half)), half + 1, |job| {
        runs(job, half)
    })?;
    life.step("suspended", edit(suspended(true)), 0, |job| {
        condition(job, "Suspended") == Some("True")
    })?;
    life.step("resumed", edit(suspended(false)), half + 1, |job| {
        runs(job, half)
    })?;
    let launchers = tenant.fixture.pods("big", "launcher")?;
    let launcher = launchers.first().context("there is no launcher")?;
    let end = || tenant.kubelet.end(e2e::api_fixture::name(launcher), 0);
    life.step("succeeded", end, 1, |job| {
        condition(job, "Succeeded") == Some("True")
    })
}

fn a_big_job_lives(transport: &str) -> Result<()> {
    let rig = Rig::new()?;
    let (tenant, neighbour) = (rig.tenant("big")?, rig.tenant("neighbour")?);
    let result = lives_beside(&rig, &tenant, &neighbour, transport);
    let result = result.with_context(|| rig.operator.last_words());
    // Also after a failure: what was made would be in the way of the next test.
    result.and(clear(&tenant.fixture, CLEAR_MAX))
}

/// How long a small job takes while there is no other.
fn alone(tenant: &Tenant, when: &str) -> Result<Duration> {
    let job = |index| Ok(tenant.start_small_job(&format!("{when}-{index}"))?.took());
    let jobs = (0..ALONE).map(job).collect::<Result<Vec<_>>>()?;
    Ok(Times::say(&format!("alone {when} ran after"), jobs)?.middle)
}

fn lives_beside(rig: &Rig, tenant: &Tenant, neighbour: &Tenant, transport: &str) -> Result<()> {
    let workers = usize::try_from(number("MUSTER_BIG_JOB_WORKERS", WORKERS)?)?;
    let before = alone(neighbour, "before")?;
    let audit = Audit::from_now(&rig.cluster)?;
    let mut life = Life {
        rig,
        tenant,
        workers,
        figures: format!("{workers} workers, transport {transport}\n"),
    };
    let beside = make(&mut life, neighbour, transport);
    let lived = beside.and_then(|beside| live_on(&mut life).map(|()| beside));
    let mut writes = audit.writes_of(&rig.account.user)?;
    writes.retain(|write| write.namespace == tenant.fixture.namespace);
    say(&format!("{}writes\n{}", life.figures, table(&writes)));
    let beside = Times::say("beside it ran after", lived?)?.middle;
    // The machine may do other things as well, and more or less of them than a minute ago.
    let alone = before.max(alone(neighbour, "after")?);
    ensure_shorter("small jobs beside the big one", beside, alone + DELAY_MAX)?;
    let pods = writes
        .iter()
        .filter(|write| write.verb == "create" && write.resource == "pods");
    let overhead = writes.len() - pods.count();
    ensure!(
        overhead <= OVERHEAD_MAX,
        "{overhead} writes beyond the pods"
    );
    let usage = rig.operator.usage()?;
    rig.operator.assert_never_restarted()?;
    ensure!(usage.block <= BLOCK_MAX, "{usage}");
    tenant.kubelet.assert_well()?;
    neighbour.kubelet.assert_well()
}

#[test]
fn c02_c03_c07_a_job_of_any_size_lives_and_nobody_waits_for_it() -> Result<()> {
    a_big_job_lives("SSH")
}

#[test]
fn c07_a_job_of_any_size_lives_without_ssh() -> Result<()> {
    a_big_job_lives("Agent")
}
