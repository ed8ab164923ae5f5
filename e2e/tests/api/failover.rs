//! How long jobs are without a leader when one is killed, and when one is told to stop. Running pods do not
//! notice either.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, SOON, name, uid};
use e2e::audit::Audit;
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::operator::Operator;
use e2e::wait_for;
use serde_json::Value;

use super::fixture::new_fixture;

/// From the death of a leader to the first write of the next: its lease, which the standby may have seen two
/// seconds late, and the lists.
const KILLED_MAX: Duration = Duration::from_secs(20);
/// The same if the leader gave its lease back: the standby looks every two seconds.
const TOLD_MAX: Duration = Duration::from_secs(3);
/// Other tests run at the same time, unless somebody wants to know it exactly.
const BUSY: Duration = Duration::from_secs(6);
/// How often a leader goes. Somebody who wants to know it exactly says how often, and runs this test alone.
const TIMES: &str = "MUSTER_FAILOVERS";

/// How often, and how much longer than alone it may take.
fn times() -> Result<(usize, Duration)> {
    match std::env::var(TIMES) {
        Ok(times) => Ok((times.parse().context(TIMES)?, Duration::ZERO)),
        Err(_) => Ok((2, BUSY)),
    }
}

/// Starts an operator that waits for the lease.
fn standby(fixture: &ApiFixture) -> Result<Operator> {
    let standby = fixture.operator_of(&fixture.account, &fixture.account.kubeconfig)?;
    wait_for("the standby to be up", SOON, || {
        standby.assert_alive()?;
        Ok((standby.health("/healthz")?.0 == 200).then_some(()))
    })?;
    Ok(standby)
}

/// Ends one leader after the other, each while a job runs and another one has just been submitted.
fn end_leaders(words: &str, at_most: Duration, end: fn(&Operator) -> Result<()>) -> Result<()> {
    let fixture = new_fixture(words)?;
    let (times, busy) = times()?;
    let mut leader = fixture.operator()?;
    fixture.submit(&MpiJob::named("held").workers(2))?;
    fixture.run("held", 2)?;
    fixture.await_condition("held", "Running")?;
    let pods = || -> Result<Vec<Value>> {
        Ok([
            fixture.pods("held", "worker")?,
            fixture.pods("held", "launcher")?,
        ]
        .concat())
    };
    let version = |pod: &Value| {
        (
            uid(pod).to_owned(),
            pod["metadata"]["resourceVersion"].clone(),
        )
    };
    let before: Vec<_> = pods()?.iter().map(version).collect();

    let mut took = Vec::new();
    for index in 0..times {
        let next = standby(&fixture)?;
        ensure!(!next.leads()?, "two operators lead with one lease");
        let audit = Audit::from_now(&fixture.cluster)?;
        let ended = Instant::now();
        end(&leader)?;
        fixture.submit(&MpiJob::named(&format!("job-{index}")).workers(1))?;
        let wanted = format!("job-{index}");
        wait_for("the next leader to write", at_most + busy + SOON, || {
            let writes = audit.writes_of(&fixture.account.user)?;
            let mut writes = writes.iter().filter(|write| write.code < 300);
            Ok(writes
                .any(|write| write.name.starts_with(&wanted))
                .then_some(()))
        })?;
        took.push(ended.elapsed());
        ensure!(next.leads()?, "somebody else wrote");
        leader = next;
    }
    took.sort();
    let longest = took.last().copied().unwrap_or_default();
    say(&format!(
        "{words}: the next write came {:.1} to {longest:.1?} after, {times} times",
        took.first().map_or(0.0, Duration::as_secs_f64)
    ));
    ensure!(
        longest <= at_most + busy,
        "the next write came {longest:?} after"
    );
    let after = pods()?;
    ensure!(
        before == after.iter().map(version).collect::<Vec<_>>(),
        "somebody touched one of {:?}",
        after.iter().map(name).collect::<Vec<_>>()
    );
    leader.assert_alive()
}

#[test]
fn a_leader_that_is_killed_is_replaced_within_twenty_seconds() -> Result<()> {
    end_leaders("killed", KILLED_MAX, |leader| {
        leader.kill();
        Ok(())
    })
}

#[test]
fn a_leader_that_is_told_to_stop_is_replaced_within_three_seconds() -> Result<()> {
    end_leaders("told", TOLD_MAX, Operator::terminate)
}
