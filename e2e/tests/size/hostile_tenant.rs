//! A tenant with the rights of an ordinary user who wants the operator to fail for everybody (S1): by
//! jobs that are too big, by many big jobs, and by objects that look like the operator's own. The
//! operator is never killed, starts again beside all of it, and another tenant's jobs start at once.
//! `MUSTER_ATTACK_SECONDS=600` is how long that is promised for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::api_fixture::{ApiFixture, name, uid};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::number;
use serde_json::{Value, json};

use super::fixture::{Rig, Tenant, Times, clear, ensure_shorter};
use super::witness::Witness;

/// Each attack goes on for so long, in `make test`.
const SECONDS: u32 = 20;
/// After so many it starts over: what was made is removed, and then there is more of it.
const ROUND_SECONDS: u32 = 15;
/// Within this time, the other tenant's jobs run.
const START_MAX: Duration = Duration::from_secs(2);
/// An operator that starts beside all that was made has seen it within this time.
const RESTART_MAX: Duration = Duration::from_secs(30);
const CLEAR_MAX: Duration = Duration::from_secs(600);

/// Over so many connections the attacker posts jobs; `kubectl create` uses one.
const CONNECTIONS: u32 = 8;

/// Two kinds of objects are refused above 1 MiB, whoever makes them.
const NEARLY_ONE_MEBIBYTE: usize = 1_000_000;
/// All annotations of an object together.
const ANNOTATIONS_MAX: usize = 250_000;

/// What the attacker makes in a round.
type Attack = fn(&ApiFixture, usize) -> Result<()>;

/// (a) Jobs whose pods alone would fill the operator's memory. The last one is refused.
fn big_jobs(attacker: &ApiFixture, round: usize) -> Result<()> {
    let many = MpiJob::named(&format!("many-{round}")).workers(10_000);
    attacker.submit(&many)?;
    for workers in [160, 300] {
        let large = MpiJob::named(&format!("large-{round}-{workers}")).workers(workers);
        let large = large.with(
            "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/env",
            json!([{"name": "LARGE", "value": "x".repeat(NEARLY_ONE_MEBIBYTE)}]),
        );
        attacker.submit(&large)?;
    }
    Ok(())
}

/// (b) Many jobs that are as large as a job can be.
fn large_jobs(attacker: &ApiFixture, round: usize) -> Result<()> {
    let names: Vec<String> = (0..60)
        .map(|index| format!("large-{round}-{index}"))
        .collect();
    let connections = usize::try_from(number("MUSTER_ATTACK_CONNECTIONS", CONNECTIONS)?)?;
    attacker.with_hands(connections, &names, |name| {
        let job = MpiJob::named(name).workers(1).with(
            "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/env",
            json!([{"name": "LARGE", "value": "x".repeat(NEARLY_ONE_MEBIBYTE)}]),
        );
        attacker.submit(&job)?;
        Ok(())
    })
}

/// (c) Objects that carry the operator's labels: some of nobody, some that name a job of the
/// attacker's own as their owner.
fn look_alikes(attacker: &ApiFixture, round: usize) -> Result<()> {
    let job = attacker.submit(
        &MpiJob::named(&format!("decoy-{round}"))
            .workers(1)
            .suspended(),
    )?;
    let indexes: Vec<usize> = (0..140).collect();
    attacker.at_once(&indexes, |index| {
        let owned = index % 2 == 0;
        let name = format!("look-alike-{round}-{index}");
        let mut map = json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "muster"}},
            "data": {"hostfile": "x".repeat(NEARLY_ONE_MEBIBYTE)},
        });
        let mut pod = json!({
            "metadata": {
                "name": name,
                "labels": {
                    "training.kubeflow.org/operator-name": "mpi-operator",
                    "training.kubeflow.org/job-name": "decoy",
                    "training.kubeflow.org/job-role": "launcher",
                },
                "annotations": {"muster.dev/hosts": "x".repeat(ANNOTATIONS_MAX)},
            },
            "spec": {"containers": [{"name": "none", "image": "nowhere.invalid/none:0"}]},
        });
        if owned {
            own(&mut map, &job);
            own(&mut pod, &job);
        }
        attacker.create("configmaps", &map)?;
        attacker.create("pods", &pod)?;
        Ok(())
    })
}

/// Says that an object belongs to a job, as anybody can say.
fn own(object: &mut Value, job: &Value) {
    object["metadata"]["labels"]["muster.dev/job-uid"] = uid(job).into();
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "controller": true,
        "name": name(job), "uid": uid(job),
    }]);
}

/// Attacks in rounds until told to stop. What the last round made stays.
fn attack(attacker: &ApiFixture, attack: Attack, stop: &AtomicBool) -> Result<usize> {
    let round = Duration::from_secs(number("MUSTER_ATTACK_ROUND_SECONDS", ROUND_SECONDS)?.into());
    let mut rounds = 0;
    while !stop.load(Ordering::SeqCst) {
        let start = Instant::now();
        if rounds > 0 {
            clear(attacker, CLEAR_MAX)?;
        }
        attack(attacker, rounds)?;
        rounds += 1;
        while start.elapsed() < round && !stop.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(rounds)
}

/// Starts small jobs, one after the other, for so long. Returns how long each took, and how much of that
/// the operator did.
fn victim(tenant: &Tenant, end: Instant) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let begun = Instant::now();
    let witness = Witness::start(&tenant.fixture)?;
    let (mut took, mut own) = (Vec::new(), Vec::new());
    while Instant::now() < end {
        let job = tenant.start_small_job(&format!("victim-{}", took.len()))?;
        took.push(job.took());
        let [created, noticed] = witness.operators_part(&job)?;
        if job.took() >= START_MAX {
            let (name, took) = (&job.name, job.took());
            let begun = job.submitted - begun;
            say(&format!(
                "{name}, {begun:.0?} after the first: {took:.2?}; its objects existed after {created:.2?}, \
                 and its pods ran {noticed:.2?} before its status said so"
            ));
        }
        own.push(created + noticed);
    }
    Ok((took, own))
}

fn withstands(what: &str, attack_with: Attack) -> Result<()> {
    let rig = Rig::new()?;
    let attacker = rig.tenant_without_kubelet("attacker")?;
    let tenant = rig.tenant("victim")?;
    let result = under_attack(&rig, &attacker, &tenant, what, attack_with);
    let result = result.with_context(|| rig.operator.last_words());
    // Also after a failure: what was made would hit the next test.
    result.and(clear(&attacker, CLEAR_MAX))
}

fn under_attack(
    rig: &Rig,
    attacker: &ApiFixture,
    tenant: &Tenant,
    what: &str,
    attack_with: Attack,
) -> Result<()> {
    let seconds = number("MUSTER_ATTACK_SECONDS", SECONDS)?;
    let stop = AtomicBool::new(false);
    let (rounds, took) = thread::scope(|scope| {
        let rounds = scope.spawn(|| attack(attacker, attack_with, &stop));
        let end = Instant::now() + Duration::from_secs(seconds.into());
        let took = victim(tenant, end);
        stop.store(true, Ordering::SeqCst);
        let rounds = rounds.join().expect("an attacker does not panic");
        (rounds, took)
    });
    let usage = rig.operator.usage()?;
    say(&format!(
        "{what}, {rounds:?} rounds in {seconds} s: {usage}"
    ));
    rig.operator.assert_never_restarted()?;
    rounds?;
    let (took, own) = took?;
    let took = Times::say(&format!("beside {what} ran after"), took)?;
    let own = Times::say("needed of the operator", own)?;

    rig.operator.restart(RESTART_MAX)?;
    let after = tenant.start_small_job("after-restart")?.took();
    say(&format!(
        "started again beside {what}: a job ran after {after:.2?}; {}",
        rig.operator.usage()?
    ));
    rig.operator.assert_never_restarted()?;
    ensure_shorter("another tenant's jobs", took.middle, START_MAX)?;
    ensure_shorter("the operator's part of nine in ten", own.most, START_MAX)?;
    ensure_shorter("a job after a restart", after, START_MAX)?;
    tenant.kubelet.assert_well()
}

#[test]
fn s01a_jobs_that_are_too_big_hurt_nobody_else() -> Result<()> {
    withstands("jobs that are too big", big_jobs)
}

#[test]
fn s01b_many_large_jobs_hurt_nobody_else() -> Result<()> {
    withstands("many large jobs", large_jobs)
}

#[test]
fn s01c_objects_that_look_like_ours_hurt_nobody() -> Result<()> {
    withstands("objects that look like ours", look_alikes)
}
