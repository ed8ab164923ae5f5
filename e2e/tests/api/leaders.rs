//! One operator leads; but a lease is no lock, so two may, for a while. What is theirs to do they do
//! once, and what is decided stays decided.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::audit::Audit;
use e2e::figures::say;
use e2e::ground::{SOON, name, new_namespace};
use e2e::jobs::MpiJob;
use e2e::operator::Account;
use e2e::{condition, wait_for};

use super::stage::ground;

/// A standby looks every two seconds.
const TAKEOVER_MAX: Duration = Duration::from_secs(3);
/// A pass that is under way when the operator is told to stop may end.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Jobs that two leaders fight over.
const JOBS: usize = 5;

#[test]
fn two_leaders_make_one_of_each_and_one_verdict() -> Result<()> {
    let ground = ground("leaders")?;
    let other_lock = new_namespace(&ground.api, "leaders-lock")?;
    let other = Account::install(&ground.cluster, &ground.api, &other_lock)?;
    let audit = Audit::from_now(&ground.cluster)?;
    let first = ground.operator()?;
    let second = ground.operator_of(&other, &other.kubeconfig)?;
    second.await_leading()?;

    let jobs: Vec<String> = (0..JOBS).map(|index| format!("job-{index}")).collect();
    for job in &jobs {
        ground.submit(&MpiJob::named(job).workers(2).clean_pod_policy("Running"))?;
    }
    for job in &jobs {
        ground.run(job, 2)?;
    }
    for job in &jobs {
        ground.await_condition(job, "Running")?;
        ground.finish(job)?;
    }
    let mut verdicts = Vec::new();
    for job in &jobs {
        let succeeded = ground.await_condition(job, "Succeeded")?;
        ground.await_pods(job, "worker", 0)?;
        verdicts.push(succeeded["status"]["conditions"].clone());
    }
    ensure!(first.leads()? && second.leads()?, "only one of them led");

    let mut requests = audit.writes_of(&ground.account.user)?;
    let of_second = audit.writes_of(&other.user)?;
    let counts = (requests.len(), of_second.len());
    requests.extend(of_second);
    let collided = requests
        .iter()
        .filter(|request| request.code == 409)
        .count();
    say(&format!(
        "writes of two leaders: {} and {}; {collided} collided",
        counts.0, counts.1
    ));
    let created = requests.iter().filter(|request| {
        request.verb == "create" && request.code < 300 && request.resource != "events"
    });
    let mut made: Vec<String> = created
        .map(|request| format!("{} {}", request.resource, request.name))
        .collect();
    made.sort();
    let total = made.len();
    made.dedup();
    ensure!(made.len() == total, "something was made twice: {made:?}");
    ensure!(
        total == JOBS * 6,
        "Service, ConfigMap, Secret, Job and two pods each: {made:?}"
    );

    for (job, verdict) in jobs.iter().zip(&verdicts) {
        let now = ground.job(job)?;
        ensure!(
            now["status"]["conditions"] == *verdict,
            "{job} changed its verdict"
        );
        ensure!(condition(&now, "Failed").is_none(), "{}", now["status"]);
    }
    first.assert_alive()?;
    second.assert_alive()
}

#[test]
fn a_leader_that_is_told_to_stop_hands_over_within_3_s_and_exits_with_0() -> Result<()> {
    let ground = ground("takeover")?;
    let leader = ground.operator()?;
    let standby = ground.operator_of(&ground.account, &ground.account.kubeconfig)?;
    wait_for("the standby to be up", SOON, || {
        standby.assert_alive()?;
        Ok((standby.health("/healthz")?.0 == 200).then_some(()))
    })?;
    ground.submit(&MpiJob::named("before").workers(2))?;
    ground.run("before", 2)?;
    ground.await_condition("before", "Running")?;
    let workers = ground.pods("before", "worker")?;
    ensure!(!standby.leads()?, "two operators lead with one lease");

    let told = Instant::now();
    leader.terminate()?;
    wait_for("the standby to lead", TAKEOVER_MAX, || {
        Ok(standby.leads()?.then_some(()))
    })?;
    say(&format!(
        "the standby led {:?} after the leader was told to stop",
        told.elapsed()
    ));
    let status = wait_for("the leader to end", STOP_MAX, || leader.ended())?;
    ensure!(status.code() == Some(0), "the leader ended with {status}");

    ground.submit(&MpiJob::named("after").workers(1))?;
    ground.run("after", 1)?;
    ground.await_condition("after", "Running")?;
    let same = |pod: &serde_json::Value| pod["metadata"]["uid"].clone();
    let now = ground.pods("before", "worker")?;
    ensure!(
        now.iter().map(same).eq(workers.iter().map(same)),
        "the takeover touched {:?}",
        now.iter().map(name).collect::<Vec<_>>()
    );
    let lease = ground
        .get("leases", "mpi-operator")?
        .context("there is no lease")?;
    ensure!(
        lease["spec"]["holderIdentity"]
            .as_str()
            .is_some_and(|holder| !holder.is_empty())
    );
    standby.terminate()?;
    let status = wait_for("the standby to end", STOP_MAX, || standby.ended())?;
    ensure!(
        status.code() == Some(0),
        "the second leader ended with {status}"
    );
    let lease = ground
        .get("leases", "mpi-operator")?
        .context("there is no lease")?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    ensure!(holder.is_empty(), "the lease is still held by {holder}");
    Ok(())
}
