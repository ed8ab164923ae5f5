//! What an operator costs that has nothing to do: requests by the API server's own count, memory by
//! the kernel's. The figures are printed, and each has a bound.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::api_fixture::{ApiFixture, SOON};
use e2e::audit::{Audit, Request, table};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::operator::program;
use e2e::{condition, wait_for};

use super::fixture::new_fixture;

/// An idle operator is watched for so long…
const IDLE: Duration = Duration::from_secs(60);
/// …and a restarted one for so long, after it has seen all jobs.
const RESTARTED: Duration = Duration::from_secs(10);
const JOBS: usize = 20;
/// Requests of an idle operator in [`IDLE`]: its lease every ten seconds, and a watch that starts over. All its
/// APIs are served here: it would look for one that is not, ever less often.
const REQUESTS_MAX: usize = 7;
/// Memory of an idle operator with [`JOBS`] jobs.
const RESIDENT_MAX: u64 = 15 << 20;
/// The program as it is shipped.
const PROGRAM_MAX: u64 = 15_000_000;
/// Counters that wait for quiet pods are written within this time.
const SETTLED: Duration = Duration::from_secs(5);

fn job_names() -> Vec<String> {
    (0..JOBS).map(|index| format!("job-{index}")).collect()
}

/// Brings all jobs to where a condition holds.
fn bring(
    fixture: &ApiFixture,
    kind: &str,
    act: impl Fn(&ApiFixture, &str) -> Result<()> + Sync,
) -> Result<()> {
    fixture.at_once(&job_names(), |job| {
        act(fixture, job)?;
        fixture.await_condition(job, kind)?;
        Ok(())
    })
}

/// What the operator asks for in this time.
fn asked_in(fixture: &ApiFixture, time: Duration) -> Result<Vec<Request>> {
    let audit = Audit::from_now(&fixture.cluster)?;
    std::thread::sleep(time);
    let mut requests = audit.requests_of(&fixture.account.user)?;
    requests.retain(|request| !request.is_open);
    Ok(requests)
}

#[test]
fn an_operator_with_nothing_to_do_writes_nothing_and_stays_small() -> Result<()> {
    let fixture = new_fixture("idle")?;
    let operator = fixture.operator()?;
    bring(&fixture, "Running", |fixture, job| {
        fixture.submit(&MpiJob::named(job).workers(2).clean_pod_policy("Running"))?;
        fixture.run(job, 2)
    })?;
    for job in job_names() {
        fixture.await_job(&job, "its counters", SOON, |job| {
            job["status"]["replicaStatuses"]["Worker"]["active"] == 2
        })?;
    }
    std::thread::sleep(SETTLED);
    operator.terminate()?;
    wait_for("the operator to end", SOON, || operator.ended())?;

    let audit = Audit::from_now(&fixture.cluster)?;
    let operator = fixture.operator()?;
    std::thread::sleep(RESTARTED);
    let writes = audit.writes_of(&fixture.account.user)?;
    say(&format!(
        "restarted with {JOBS} running jobs: {} writes in {RESTARTED:?}",
        writes.len()
    ));
    ensure!(
        writes.is_empty(),
        "a restart is no reason to write:\n{}",
        table(&writes)
    );

    bring(&fixture, "Succeeded", ApiFixture::finish)?;
    for job in job_names() {
        fixture.await_pods(&job, "worker", 0)?;
        ensure!(condition(&fixture.job(&job)?, "Succeeded") == Some("True"));
    }
    std::thread::sleep(SETTLED);
    let requests = asked_in(&fixture, IDLE)?;
    say(&format!(
        "idle with {JOBS} finished jobs: {} requests in {IDLE:?}",
        requests.len()
    ));
    ensure!(
        requests
            .iter()
            .all(|request| request.is_election() || !request.is_write()),
        "an idle operator writes:\n{}",
        table(&requests)
    );
    ensure!(
        requests.len() <= REQUESTS_MAX,
        "an idle operator asks for much:\n{}",
        table(&requests)
    );

    let (resident, program) = (operator.resident_bytes()?, program()?);
    let size = program.metadata()?.len();
    say(&format!(
        "memory with {JOBS} jobs: {resident} bytes; program: {size} bytes"
    ));
    // What cargo builds for finding faults may be big; anything else is as it is shipped.
    if !program.components().any(|part| part.as_os_str() == "debug") {
        ensure!(resident <= RESIDENT_MAX, "{resident} bytes of memory");
        ensure!(size <= PROGRAM_MAX, "the program has {size} bytes");
    }
    operator.assert_alive()
}
