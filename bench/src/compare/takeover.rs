//! Kubeflow's operator begins jobs, muster takes them over, and Kubeflow's operator takes them back. Fails if a
//! pod or a verdict changes on the way; tells how many writes each change of hands cost.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::audit::{Audit, Request};
use e2e::condition;
use serde_json::{Value, json};

use super::life::warmed_up;
use super::operators::{Process, Side};
use super::restart::at_rest;
use super::rig::{Rig, Tenant, at_once};
use super::sightings::Sightings;

const JOBS: usize = 10;
const WORKERS: usize = 2;
/// What follows the end of a job is over by then.
const SETTLED: Duration = Duration::from_secs(5);
/// Who begins, and who takes over from whom. So many jobs are over when the next one comes.
const HANDS: [(Side, usize); 3] = [(Side::P1, 5), (Side::Muster, 8), (Side::P1, JOBS)];

fn name(number: usize) -> String {
    format!("moved-{number}")
}

/// Moves the jobs and takes the numbers.
pub(super) fn sample(rig: &Rig) -> Result<Value> {
    let tenant = rig.tenant("moved")?;
    let mut changes = Vec::new();
    let mut over = 0;
    let mut first = Some(warmed_up(rig, HANDS[0].0, &tenant)?);
    let sightings = Sightings::start(&tenant, "mpijobs")?;
    at_once(JOBS, |number| {
        tenant.submit(&tenant.job(&name(number), WORKERS)?)
    })?;
    let patience = Side::P1.patience(JOBS * (WORKERS + 1));
    let ran = sightings.wait("Running", JOBS, patience)?;
    ensure!(ran == JOBS, "{ran} jobs ran");
    for (side, until) in HANDS {
        let operator = match first.take() {
            Some(begun) => begun,
            None => {
                let (operator, change) = take_over(rig, &tenant, side, over)?;
                changes.push(change);
                operator
            }
        };
        for number in over..until {
            tenant.end_launcher(&name(number))?;
        }
        let succeeded = sightings.wait("Succeeded", until, patience)?;
        ensure!(
            succeeded == until,
            "{side:?}: {succeeded} of {until} jobs succeeded"
        );
        over = until;
        thread::sleep(SETTLED);
        operator.end()?;
    }
    drop(sightings);
    tenant.close()?;
    Ok(json!({"jobs": JOBS, "workers": WORKERS, "changes": changes}))
}

/// Another operator comes where none is, and so many jobs are over.
fn take_over(rig: &Rig, tenant: &Tenant, side: Side, over: usize) -> Result<(Process, Value)> {
    let before = (pods(tenant, over)?, verdicts(tenant, over)?);
    let audit = Audit::from_now(&rig.cluster)?;
    let operator = Process::start(rig, side)?;
    let requests = at_rest(&audit, &side.account(rig).user)?;
    let after = (pods(tenant, over)?, verdicts(tenant, over)?);
    ensure!(
        before == after,
        "{side:?} changed something: {before:?} {after:?}"
    );
    let writes: Vec<&Request> = requests
        .iter()
        .filter(|request| request.is_write())
        .collect();
    let is_of_over = |write: &Request| (0..over).any(|number| is_of(write, &name(number)));
    let (of_over, others): (Vec<_>, Vec<_>) =
        writes.into_iter().partition(|write| is_of_over(write));
    let change = json!({
        "side": side.name(),
        "jobsOver": over,
        "jobsRunning": JOBS - over,
        "podsKept": before.0.len(),
        "writes": counts(&others),
        "writesOfJobsOver": counts(&of_over),
    });
    Ok((operator, change))
}

/// How many of each kind.
fn counts(writes: &[&Request]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for write in writes {
        let what = format!("{} {}", write.verb, write.resource);
        *counts.entry(what).or_default() += 1;
    }
    counts
}

fn is_of(write: &Request, job: &str) -> bool {
    let rest = write.name.strip_prefix(job);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

/// UIDs of the pods of jobs that are not over.
fn pods(tenant: &Tenant, over: usize) -> Result<BTreeSet<String>> {
    let running: BTreeSet<String> = (over..JOBS).map(name).collect();
    let pods = tenant.api.list(&tenant.all("pods"))?;
    let of_running = pods.iter().filter(|pod| {
        let job = pod["metadata"]["labels"]["training.kubeflow.org/job-name"].as_str();
        job.is_some_and(|job| running.contains(job))
    });
    let uids = of_running.map(|pod| pod["metadata"]["uid"].to_string());
    let uids: BTreeSet<String> = uids.collect();
    let expected = (JOBS - over) * (WORKERS + 1);
    ensure!(
        uids.len() == expected,
        "{} of {expected} pods are there",
        uids.len()
    );
    Ok(uids)
}

/// How and when the jobs ended that are over.
fn verdicts(tenant: &Tenant, over: usize) -> Result<Vec<(String, Value)>> {
    (0..over)
        .map(|number| {
            let path = format!("{}/{}", tenant.all("mpijobs"), name(number));
            let job = tenant.api.get(&path)?.context("the job is gone")?;
            let verdict = condition(&job, "Succeeded").unwrap_or("absent").to_owned();
            Ok((verdict, job["status"]["completionTime"].clone()))
        })
        .collect()
}
