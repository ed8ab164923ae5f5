//! Workers that are lost while their launcher goes on: what the replacement costs, and when a node is given up.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::api_fixture::{ApiFixture, FAILED, PodState, uid};
use e2e::audit::{self, Audit};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// What one lost worker costs, whatever the size of the job.
const WRITES_MAX: usize = 10;
/// An operator that has nothing to write within this time has nothing to write.
const SETTLED: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(30);

fn recovering(name: &str, workers: u32) -> MpiJob {
    MpiJob::named(name)
        .workers(workers)
        .launcher_command(&["mpirun", "solve"])
        .with("/spec/muster/transport", "Agent")
        .with(
            "/spec/muster/recovery",
            json!({"restarts": 3, "graceSeconds": 1}),
        )
}

/// Waits until another pod has the name of this worker.
fn await_successor(
    fixture: &ApiFixture,
    job: &str,
    worker: &Value,
    within: Duration,
) -> Result<Value> {
    let name = &worker["metadata"]["name"];
    wait_for(&format!("another {name}"), within, || {
        let mut pods = fixture.pods(job, "worker")?.into_iter();
        Ok(pods.find(|pod| pod["metadata"]["name"] == *name && uid(pod) != uid(worker)))
    })
}

fn uids(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| uid(pod).to_owned()).collect()
}

/// Of its writes, what one lost worker costs a job of so many.
fn cost(fixture: &ApiFixture, workers: usize) -> Result<usize> {
    let name = format!("w{workers}");
    fixture.submit(&recovering(&name, u32::try_from(workers)?))?;
    fixture.run(&name, workers)?;
    fixture.await_condition(&name, "Running")?;
    // Counters wait for quiet pods.
    std::thread::sleep(SETTLED);
    let before = fixture.pods(&name, "worker")?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let lost = &before[1..2];
    fixture.set(lost, FAILED)?;
    let next = await_successor(fixture, &name, &lost[0], SOON)?;
    fixture.set(&[next], PodState::Ready)?;
    fixture.await_job(&name, "it runs again", SOON, |job| {
        let muster = &job["status"]["muster"];
        muster["phase"] == "Running" && muster["lostWorkers"] == 1
    })?;
    std::thread::sleep(SETTLED);
    let (before, after) = (uids(&before), uids(&fixture.pods(&name, "worker")?));
    let stayed = after.iter().filter(|uid| before.contains(uid)).count();
    ensure!(stayed == workers - 1, "{before:?}, {after:?}");
    let writes = audit.writes_of(&fixture.account.user)?;
    say(&format!("{workers} workers:\n{}", audit::table(&writes)));
    Ok(writes.len())
}

#[test]
fn a_lost_worker_costs_the_same_few_writes_in_every_job() -> Result<()> {
    let fixture = new_fixture("lost-worker")?;
    let _operator = fixture.operator()?;
    let small = cost(&fixture, 2)?;
    let large = cost(&fixture, 64)?;
    ensure!(small <= WRITES_MAX, "{small} writes");
    ensure!(large == small, "{large} writes, {small} of a small job");
    Ok(())
}

/// Nobody confirms that its containers ended, so its name is not free by itself.
#[test]
fn a_worker_whose_node_is_gone_is_created_elsewhere() -> Result<()> {
    let fixture = new_fixture("lost-node")?;
    let node = format!("lost-{}", fixture.namespace);
    fixture.api.create(
        "/api/v1/nodes",
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}),
    )?;
    let tested = loses_a_node(&fixture, &node);
    fixture.api.delete(&format!("/api/v1/nodes/{node}"))?;
    tested
}

fn loses_a_node(fixture: &ApiFixture, node: &str) -> Result<()> {
    let _operator = fixture.operator()?;
    let job =
        recovering("demo", 2).with("/spec/mpiReplicaSpecs/Worker/template/spec/nodeName", node);
    fixture.submit(&job)?;
    fixture.run("demo", 2)?;
    fixture.await_condition("demo", "Running")?;
    let workers = fixture.pods("demo", "worker")?;
    let lost = &workers[1];
    fixture.api.delete(&fixture.path("pods", "demo-worker-1"))?;
    // As the node's controller says of a node that does not answer.
    fixture.set(&workers[1..2], PodState::Running)?;
    let since = Instant::now();
    // Its grace period has 30 seconds; a minute follows.
    await_successor(fixture, "demo", lost, Duration::from_secs(150))?;
    let took = since.elapsed();
    say(&format!("given up after {:.0} s", took.as_secs_f64()));
    ensure!(took >= Duration::from_secs(85), "after {took:.0?}");
    let after = fixture.pods("demo", "worker")?;
    ensure!(uid(&after[0]) == uid(&workers[0]), "the other one stays");
    Ok(())
}
