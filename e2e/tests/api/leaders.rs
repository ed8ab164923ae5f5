//! One operator leads; but a lease is no lock, so two may, for a while. What is theirs to do they do
//! once, and what is decided stays decided.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{SOON, name, new_namespace, uid};
use e2e::audit::{Audit, Request, table};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::operator::Account;
use e2e::{condition, wait_for};
use serde_json::Value;

use super::fixture::new_fixture;

/// A standby looks every two seconds.
const TAKEOVER_MAX: Duration = Duration::from_secs(8);
/// A pass that is under way when the operator is told to stop may end.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Jobs that two leaders fight over.
const JOBS: usize = 5;
/// Leaders that write nothing for this long rest.
const REST: Duration = Duration::from_secs(3);
const REST_MAX: Duration = Duration::from_secs(60);

/// What two leaders made for a job, in the order in which it was made. A leader that was asleep may
/// carry out a plan that is older than the other's clean-up, and make workers again: nobody can stop
/// a request that is on its way. Until the clean-up everything is made once; what lasts is made once
/// forever. Returns how many workers came late.
fn assert_made_once(requests: &[Request], job: &Value) -> Result<usize> {
    let (mut made, mut late, mut cleaned) = (BTreeSet::new(), 0, false);
    let about = |request: &&Request| {
        let own = request.name == name(job) || request.name.starts_with(&format!("{}-", name(job)));
        own || request.uri.contains(uid(job))
    };
    for request in requests
        .iter()
        .filter(|request| request.is_write() && request.code < 300)
        .filter(about)
    {
        match (request.verb.as_str(), request.resource.as_str()) {
            ("deletecollection", "pods") => cleaned = true,
            ("create", "pods") if cleaned => late += 1,
            ("create", "services" | "configmaps" | "secrets" | "jobs" | "pods") => {
                let what = format!("{} {}", request.resource, request.name);
                ensure!(made.insert(what.clone()), "{what} was made twice");
            }
            _ => {}
        }
    }
    ensure!(
        made.len() == 6,
        "Service, ConfigMap, Secret, Job and two workers: {made:?}"
    );
    Ok(late)
}

/// Waits until neither leader has anything more to write.
fn await_rest(audit: &Audit, users: [&str; 2]) -> Result<()> {
    let written = || -> Result<usize> {
        let writes = users.map(|user| Ok(audit.writes_of(user)?.len()));
        writes.into_iter().sum()
    };
    let (mut seen, mut since) = (written()?, Instant::now());
    wait_for("both leaders to rest", REST_MAX, || {
        let now = written()?;
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        Ok((since.elapsed() > REST).then_some(()))
    })
}

#[test]
fn two_leaders_make_one_of_each_and_one_verdict() -> Result<()> {
    let fixture = new_fixture("leaders")?;
    let other_lock = new_namespace(&fixture.api, "leaders-lock")?;
    let other = Account::install(&fixture.cluster, &fixture.api, &other_lock)?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let first = fixture.operator()?;
    let second = fixture.operator_of(&other, &other.kubeconfig)?;
    second.await_leading()?;

    let names: Vec<String> = (0..JOBS).map(|index| format!("job-{index}")).collect();
    for job in &names {
        fixture.submit(&MpiJob::named(job).workers(2).clean_pod_policy("Running"))?;
    }
    for job in &names {
        fixture.run(job, 2)?;
    }
    for job in &names {
        fixture.await_condition(job, "Running")?;
        fixture.finish(job)?;
    }
    let verdicts = names
        .iter()
        .map(|job| fixture.await_condition(job, "Succeeded"));
    let verdicts = verdicts.collect::<Result<Vec<_>>>()?;
    await_rest(&audit, [&fixture.account.user, &other.user])?;
    ensure!(first.leads()? && second.leads()?, "only one of them led");

    let mut requests = audit.requests_in(&fixture.namespace)?;
    let users = [&fixture.account.user, &other.user];
    requests.retain(|request| request.is_write() && users.contains(&&request.user));
    let mut late = 0;
    for job in &verdicts {
        late += assert_made_once(&requests, job)?;
        let (now, left) = (fixture.job(name(job))?, fixture.pods(name(job), "worker")?);
        ensure!(
            now["status"]["conditions"] == job["status"]["conditions"],
            "the verdict changed"
        );
        ensure!(condition(&now, "Failed").is_none(), "{}", now["status"]);
        ensure!(left.is_empty(), "{} has workers left", name(job));
    }
    let collided = requests
        .iter()
        .filter(|request| request.code == 409)
        .count();
    say(&format!(
        "two leaders: {} writes for {JOBS} jobs, {collided} collided, {late} workers came late",
        requests.len()
    ));
    first.assert_alive()?;
    second.assert_alive()
}

#[test]
fn a_leader_that_slept_through_a_life_wakes_and_leaves_the_end_as_it_is() -> Result<()> {
    let fixture = new_fixture("asleep")?;
    let other_lock = new_namespace(&fixture.api, "asleep-lock")?;
    let other = Account::install(&fixture.cluster, &fixture.api, &other_lock)?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let sleeper = fixture.operator_of(&other, &other.kubeconfig)?;
    sleeper.await_leading()?;
    let awake = fixture.operator()?;
    sleeper.pause()?;
    fixture.submit(&MpiJob::named("pi").workers(2).clean_pod_policy("Running"))?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    fixture.finish("pi")?;
    let job = fixture.await_condition("pi", "Succeeded")?;
    fixture.await_pods("pi", "worker", 0)?;

    sleeper.wake()?;
    await_rest(&audit, [&fixture.account.user, &other.user])?;
    // One that slept longer than its lease has ended itself, which is as well.
    awake.assert_alive()?;
    let late = assert_made_once(&audit.requests_in(&fixture.namespace)?, &job)?;
    let after = audit.writes_of(&other.user)?;
    say(&format!(
        "a leader that slept: {} writes, {late} workers came late",
        after.len()
    ));
    ensure!(
        late == 0,
        "workers were made for a job that is over:\n{}",
        table(&after)
    );
    ensure!(
        fixture.pods("pi", "worker")?.is_empty(),
        "the job has workers left"
    );
    ensure!(
        fixture.job("pi")?["status"] == job["status"],
        "the verdict changed"
    );
    Ok(())
}

#[test]
fn a_leader_that_is_told_to_stop_hands_over_before_its_lease_ends_and_exits_with_0() -> Result<()> {
    let fixture = new_fixture("takeover")?;
    let leader = fixture.operator()?;
    let standby = fixture.operator_of(&fixture.account, &fixture.account.kubeconfig)?;
    wait_for("the standby to be up", SOON, || {
        standby.assert_alive()?;
        Ok((standby.health("/healthz")?.0 == 200).then_some(()))
    })?;
    fixture.submit(&MpiJob::named("before").workers(2))?;
    fixture.run("before", 2)?;
    fixture.await_condition("before", "Running")?;
    let workers = fixture.pods("before", "worker")?;
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

    fixture.submit(&MpiJob::named("after").workers(1))?;
    fixture.run("after", 1)?;
    fixture.await_condition("after", "Running")?;
    let same = |pod: &Value| pod["metadata"]["uid"].clone();
    let now = fixture.pods("before", "worker")?;
    ensure!(
        now.iter().map(same).eq(workers.iter().map(same)),
        "the takeover touched {:?}",
        now.iter().map(name).collect::<Vec<_>>()
    );
    let lease = fixture
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
    let lease = fixture
        .get("leases", "mpi-operator")?
        .context("there is no lease")?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    ensure!(holder.is_empty(), "the lease is still held by {holder}");
    Ok(())
}
