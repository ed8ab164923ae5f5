//! What a job's life costs, by the API server's own count. The figures are printed and have a bound.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::api_fixture::ApiFixture;
use e2e::audit::{Audit, Request};
use e2e::figures::say;
use e2e::jobs::MpiJob;

use super::fixture::new_fixture;

/// Writes of a job's life beyond one for each worker: twelve, and two of its progress.
const OVERHEAD_MAX: usize = 14;
/// Requests that remove all workers of a finished job.
const CLEAN_UP_MAX: usize = 1;
/// Counters that wait for quiet pods are written within this time.
const SETTLED: Duration = Duration::from_secs(5);

/// Writes that need not have been: refused, or the same again.
fn wasted(writes: &[Request]) -> usize {
    let mut made: Vec<_> = writes
        .iter()
        .filter(|write| write.verb == "create" && write.code < 300)
        .map(|write| (&write.resource, &write.name))
        .collect();
    let total = made.len();
    made.sort();
    made.dedup();
    let refused = writes.iter().filter(|write| write.code >= 300).count();
    refused + total - made.len()
}

/// Requests that removed pods.
fn cleaned_up(writes: &[Request]) -> usize {
    let removes = |write: &&Request| write.verb.starts_with("delete") && write.resource == "pods";
    writes.iter().filter(removes).count()
}

/// The writes of a job's whole life.
fn life(fixture: &ApiFixture, workers: usize) -> Result<Vec<Request>> {
    let name = format!("w{workers}");
    let audit = Audit::from_now(&fixture.cluster)?;
    let job = MpiJob::named(&name).workers(u32::try_from(workers)?);
    fixture.submit(&job.clean_pod_policy("Running"))?;
    fixture.run(&name, workers)?;
    fixture.await_condition(&name, "Running")?;
    fixture.finish(&name)?;
    fixture.await_condition(&name, "Succeeded")?;
    fixture.await_pods(&name, "worker", 0)?;
    std::thread::sleep(SETTLED);
    audit.writes_of(&fixture.account.user)
}

/// A job's workers and writes.
type Life = (usize, Vec<Request>);

/// A row for each thing that was written, a column for each life.
fn side_by_side(lives: &[Life]) -> String {
    let what = |write: &Request| format!("{} {}", write.verb, write.resource);
    let row = |what: &str, number: &dyn Fn(&Life) -> usize| {
        let numbers: String = lives
            .iter()
            .map(|life| format!("{:>8}", number(life)))
            .collect();
        format!("{what:<24}{numbers}\n")
    };
    let kinds: BTreeSet<String> = lives
        .iter()
        .flat_map(|(_, writes)| writes.iter().map(what))
        .collect();
    let rows = kinds.iter().map(|kind| {
        row(kind, &|(_, writes)| {
            writes.iter().filter(|write| what(write) == *kind).count()
        })
    });
    let sums = [
        row("sum", &|(_, writes)| writes.len()),
        row("beyond the workers", &|(workers, writes)| {
            writes.len().saturating_sub(*workers)
        }),
        row("wasted", &|(_, writes)| wasted(writes)),
        row("of the clean-up", &|(_, writes)| cleaned_up(writes)),
    ];
    let head = row("writes of workers:", &|(workers, _)| *workers);
    [head].into_iter().chain(rows).chain(sums).collect()
}

#[test]
fn a_life_costs_a_write_for_each_worker_and_fourteen_and_none_is_wasted() -> Result<()> {
    let fixture = new_fixture("thrift")?;
    let _operator = fixture.operator()?;
    let lives = [2, 16, 64].map(|workers| life(&fixture, workers).map(|writes| (workers, writes)));
    let lives = lives.into_iter().collect::<Result<Vec<_>>>()?;
    let table = side_by_side(&lives);
    say(&table);
    for (workers, writes) in &lives {
        ensure!(
            writes.len() <= workers + OVERHEAD_MAX,
            "W = {workers} costs more\n{table}"
        );
        ensure!(
            wasted(writes) == 0,
            "W = {workers} writes for nothing\n{table}"
        );
        ensure!(
            cleaned_up(writes) <= CLEAN_UP_MAX,
            "W = {workers} is cleaned up in pieces\n{table}"
        );
    }
    Ok(())
}
