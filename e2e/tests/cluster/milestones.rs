//! What the status tells of a job's past, against the conditions of its pods; and what it still tells when they
//! are gone.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::agent;
use e2e::cluster_fixture::pi::{HELD, Mpi, PI};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE};
use e2e::wait_for;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::with_cluster;

const WORKERS: u32 = 3;
const LATE: u32 = 1;
/// The init container of the late worker ends when its pod is this old.
const LATE_SECS: i64 = 9;
/// Init container of the workers; that of the late one waits to be told.
const INIT: &str =
    "case $(hostname) in *-worker-1) until [ -e /tmp/go ]; do sleep 0.1; done;; esac";

#[test]
fn the_status_tells_when_each_part_of_a_start_was_over_and_who_was_late() -> Result<()> {
    with_cluster("milestones", |fixture| {
        let mpi = Mpi::OpenMpi5;
        let init = json!([{
            "name": "data", "image": agent::image(mpi), "imagePullPolicy": "Never",
            "command": ["sh", "-c", INIT],
        }]);
        let workers = WORKERS.to_string();
        let program = ["sh", "-c", HELD, "held", "mpirun", "-n", &workers, PI];
        let job = agent::job(mpi, WORKERS, &program)
            .clean_pod_policy("All")
            .with("/spec/runPolicy/ttlSecondsAfterFinished", 0)
            .with(
                "/spec/mpiReplicaSpecs/Worker/template/spec/initContainers",
                init,
            );
        let job = fixture.submit(&job)?;
        begin_late(fixture, &job)?;
        job.running()?;
        let pods = ready_workers(&job)?;
        let launcher = job.launcher_pod()?;
        job.release()?;
        job.succeeded()?;
        job.has_no_pods()?;
        let over = job.get()?;
        let muster = &over["status"]["muster"];
        let milestones = &muster["milestones"];
        for (name, told) in [
            ("created", over["metadata"]["creationTimestamp"].clone()),
            (
                "podsCreated",
                last(&pods, |pod| {
                    Some(pod["metadata"]["creationTimestamp"].clone())
                })?,
            ),
            ("scheduled", last(&pods, |pod| since(pod, "PodScheduled"))?),
            ("imagesReady", last(&pods, began)?),
            ("workersReady", last(&pods, |pod| since(pod, "Ready"))?),
            (
                "gatePassed",
                since(&launcher, "Initialized").context("the gate is closed")?,
            ),
            ("ended", over["status"]["completionTime"].clone()),
        ] {
            ensure!(milestones[name] == told, "{name} is not {told}: {muster:#}");
        }
        let ranks = time(&milestones["ranksStarted"])?;
        let gate = time(&milestones["gatePassed"])?;
        ensure!(
            ranks >= gate,
            "ranks ran before the gate opened: {muster:#}"
        );
        let slowest = muster["slowest"].as_array().context("nobody was late")?;
        let late = slowest.first().context("nobody was late")?;
        let pod = &pods[LATE as usize];
        ensure!(
            late["worker"] == job.worker(LATE)
                && late["phase"] == "Starting"
                && late["node"] == pod["spec"]["nodeName"]
                && late["seconds"].as_i64() >= Some(LATE_SECS - 3),
            "{late} is not the worker that waited"
        );
        Ok(())
    })
}

/// Lets the late worker begin when it is late beyond doubt.
fn begin_late(fixture: &ClusterFixture, job: &Submitted<'_>) -> Result<()> {
    let late = job.worker(LATE);
    wait_for("a worker that is late", PATIENCE, || {
        let pods = fixture.pods(job.name(), "worker")?;
        let (pod, others): (Vec<_>, Vec<_>) = pods
            .iter()
            .partition(|pod| pod["metadata"]["name"] == *late);
        let Some(pod) = pod.first() else {
            return Ok(None);
        };
        let mut slowest = 0;
        for other in &others {
            let Some(ready) = since(other, "Ready") else {
                return Ok(None);
            };
            let took = time(&ready)?.duration_since(time(&other["metadata"]["creationTimestamp"])?);
            slowest = slowest.max(took.as_secs());
        }
        let waits = pod["status"]["initContainerStatuses"].as_array();
        let mut waits = waits.into_iter().flatten();
        let waits =
            waits.any(|status| status["name"] == "data" && status["state"]["running"].is_object());
        let age = Timestamp::now().duration_since(time(&pod["metadata"]["creationTimestamp"])?);
        Ok((waits && age.as_secs() >= LATE_SECS + 2 * slowest).then_some(()))
    })?;
    let place = ["exec", "-n", &fixture.namespace, &late, "-c", "data"];
    fixture
        .cluster
        .kubectl(&[&place[..], &["--", "touch", "/tmp/go"]].concat())?;
    Ok(())
}

fn ready_workers(job: &Submitted<'_>) -> Result<Vec<Value>> {
    job.pods_until("all workers ready", "worker", |pods| {
        pods.len() == WORKERS as usize && pods.iter().all(|pod| since(pod, "Ready").is_some())
    })
}

/// Since when a condition is True.
fn since(pod: &Value, kind: &str) -> Option<Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let mut conditions = conditions.iter();
    let holds = |one: &&Value| one["type"] == kind && one["status"] == "True";
    Some(conditions.find(holds)?["lastTransitionTime"].clone())
}

/// When the last container began.
fn began(pod: &Value) -> Option<Value> {
    let statuses = pod["status"]["containerStatuses"].as_array()?;
    let times = statuses
        .iter()
        .map(|status| &status["state"]["running"]["startedAt"]);
    // Times of one form sort as texts.
    let last = times.max_by_key(|time| time.as_str().unwrap_or_default().to_owned());
    last.cloned()
}

/// When it was true of the last pod.
fn last(pods: &[Value], at: impl Fn(&Value) -> Option<Value>) -> Result<Value> {
    let times: Option<Vec<Value>> = pods.iter().map(at).collect();
    let times = times.context("it is not true of all pods")?.into_iter();
    let last = times.max_by_key(|time| time.as_str().unwrap_or_default().to_owned());
    last.context("there are no pods")
}

fn time(value: &Value) -> Result<Timestamp> {
    let text = value.as_str().context("no time")?;
    text.parse().with_context(|| format!("{text} is no time"))
}
