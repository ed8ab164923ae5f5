//! Jobs that cannot be run as they are stored. Each must say in its own status which field is wrong,
//! and none may disturb the operator or another job.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::ApiFixture;
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use super::fixture::bad_jobs_fixture;

/// A user who looks at a job finds out what is wrong with it within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// A job that only a lax schema lets pass.
pub(crate) struct BadJob {
    pub(crate) job: Value,
    /// A status that somebody wrote before.
    pub(crate) status: Option<Value>,
    /// The field that is wrong; none if the job is to run all the same.
    field: Option<&'static str>,
}

/// All of them.
pub(crate) fn bad_jobs() -> Vec<BadJob> {
    let bad = |(job, field): (MpiJob, &'static str)| BadJob {
        job: job.json(),
        status: None,
        field: Some(field),
    };
    let wrong_values = wrong_values().into_iter().map(bad);
    let mut jobs: Vec<BadJob> = wrong_values
        .chain(wrong_shapes().into_iter().map(bad))
        .collect();
    let mut without_spec = MpiJob::named("without-spec").json();
    without_spec
        .as_object_mut()
        .expect("a job is an object")
        .remove("spec");
    jobs.push(BadJob {
        job: without_spec,
        status: None,
        field: Some("spec.mpiReplicaSpecs"),
    });
    jobs.push(BadJob {
        job: MpiJob::named("garbled-status").workers(1).json(),
        status: Some(json!({
            "conditions": "none", "muster": 7, "replicaStatuses": [], "startTime": {},
        })),
        field: None,
    });
    jobs.push(BadJob {
        job: good(FAILED_IN_V1)
            .with("/spec/muster/dialect", "v1")
            .with("/spec/mpiReplicaSpecs/Launcher/replicas", 2)
            .json(),
        status: None,
        field: None,
    });
    jobs
}

/// A job of v1, whose clients give up only on a job that has failed.
const FAILED_IN_V1: &str = "two-launchers-in-v1";

/// F13 of the acceptance list: clients of v1 look at conditions and times only.
fn has_failed_in_v1(fixture: &ApiFixture) -> Result<()> {
    let job = fixture.await_condition(FAILED_IN_V1, "Failed")?;
    for time in ["startTime", "completionTime"] {
        ensure!(
            job["status"][time].is_string(),
            "no {time}: {}",
            job["status"]
        );
    }
    let conditions = job["status"]["conditions"].to_string();
    let field = "spec.mpiReplicaSpecs[Launcher].replicas";
    ensure!(conditions.contains(field), "{conditions}");
    Ok(())
}

fn good(name: &str) -> MpiJob {
    MpiJob::named(name).workers(2)
}

const WORKER_COUNT: &str = "spec.mpiReplicaSpecs[Worker].replicas";

fn wrong_values() -> [(MpiJob, &'static str); 9] {
    let workers = |name: &str, count: i64| {
        (
            good(name).with("/spec/mpiReplicaSpecs/Worker/replicas", count),
            WORKER_COUNT,
        )
    };
    let launcher = "/spec/mpiReplicaSpecs/Launcher";
    let evaluator = "/spec/mpiReplicaSpecs/Evaluator";
    let creation = "/spec/launcherCreationPolicy";
    let too_long = "a".repeat(60);
    [
        workers("no-workers", 0),
        workers("minus-one", -1),
        workers("two-to-the-31", i32::MAX.into()),
        workers("beyond-int32", 1 << 40),
        (
            good("no-launcher").with(launcher, Value::Null),
            "spec.mpiReplicaSpecs[Launcher]",
        ),
        (
            good("unknown-role").with(evaluator, json!({"replicas": 1})),
            "spec.mpiReplicaSpecs[Evaluator]",
        ),
        (
            good("unknown-start").with(creation, "AtStart"),
            "spec.launcherCreationPolicy",
        ),
        (
            good("unknown-mpi").with("/spec/mpiImplementation", "LAM"),
            "spec.mpiImplementation",
        ),
        (good(&too_long), "metadata.name"),
    ]
}

fn wrong_shapes() -> [(MpiJob, &'static str); 10] {
    let containers = "/spec/mpiReplicaSpecs/Launcher/template/spec/containers";
    let containers_field = "spec.mpiReplicaSpecs[Launcher].template.spec.containers";
    let template = "/spec/mpiReplicaSpecs/Worker/template";
    [
        (
            good("a-fraction").with("/spec/mpiReplicaSpecs/Worker/replicas", 1.5),
            WORKER_COUNT,
        ),
        (
            good("slots-in-words").with("/spec/slotsPerWorker", "two"),
            "spec.slotsPerWorker",
        ),
        (
            good("policy-in-words").with("/spec/runPolicy", "fast"),
            "spec.runPolicy",
        ),
        (
            good("suspend-in-words").with("/spec/runPolicy/suspend", "yes"),
            "spec.runPolicy.suspend",
        ),
        (
            good("template-a-number").with(template, 5),
            "spec.mpiReplicaSpecs[Worker].template",
        ),
        (
            good("no-containers").with(containers, json!([])),
            containers_field,
        ),
        (
            good("containers-an-object").with(containers, json!({"name": "x"})),
            containers_field,
        ),
        (
            good("roles-a-list").with("/spec/mpiReplicaSpecs", json!([1])),
            "spec.mpiReplicaSpecs",
        ),
        (
            good("empty-spec").with("/spec", json!({})),
            "spec.mpiReplicaSpecs",
        ),
        (good("spec-a-text").with("/spec", "run it"), "spec"),
    ]
}

/// Whether the API server would store any status of this job. It checks the whole object again,
/// and gives up on a stored spec in which it cannot even look for what it has rules for.
fn takes_status(fixture: &ApiFixture, name: &str) -> Result<bool> {
    let path = format!("{}/status?dryRun=All", fixture.path("mpijobs", name));
    let answer = fixture.api.send(
        "PATCH",
        &path,
        Some(&json!({"status": {"startTime": null}})),
    )?;
    Ok(answer.code < 300)
}

/// What the job itself says is wrong.
fn told_by_status(fixture: &ApiFixture, name: &str, left: Duration) -> Result<String> {
    let job = fixture.await_job(name, "Invalid", left, |job| {
        job["status"]["muster"]["reason"] == "Invalid"
    })?;
    ensure!(
        condition(&job, "Created").is_none(),
        "{name} was taken up: {}",
        job["status"]
    );
    Ok(job["status"]["muster"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// What the last resort says is wrong.
fn told_by_event(fixture: &ApiFixture, name: &str, left: Duration) -> Result<String> {
    wait_for(&format!("an event of {name}"), left, || {
        let events = fixture.events(name)?;
        let found = events
            .iter()
            .find(|event| event["reason"] == "ValidationError");
        Ok(found.map(|event| event["message"].as_str().unwrap_or_default().to_owned()))
    })
}

#[test]
fn a_bad_job_names_its_fault_within_5_s_and_a_good_one_beside_it_runs() -> Result<()> {
    let fixture = bad_jobs_fixture()?;
    // Asked before the clock runs: the API server compiles its rules when it first needs them.
    let mut bad = Vec::new();
    for BadJob { job, field, .. } in bad_jobs() {
        let name = job["metadata"]["name"]
            .as_str()
            .context("a bad job without a name")?;
        let takes_status = takes_status(&fixture, name)?;
        bad.extend(field.map(|field| (name.to_owned(), field, takes_status)));
    }
    let operator = fixture.operator()?;
    let end = Instant::now() + TOLD_WITHIN;
    for (name, field, takes_status) in &bad {
        let left = end.saturating_duration_since(Instant::now());
        let said = match takes_status {
            true => told_by_status(&fixture, name, left)?,
            false => told_by_event(&fixture, name, left)?,
        };
        ensure!(
            said.contains(&format!("{field}: ")),
            "{name}: {field} is not in `{said}`"
        );
    }
    let by_status = bad
        .iter()
        .filter(|(_, _, takes_status)| *takes_status)
        .count();
    let by_event = bad.len() - by_status;
    say(&format!(
        "faults named by status: {by_status}, by event: {by_event}, in {TOLD_WITHIN:?}"
    ));
    ensure!(
        by_event <= 4,
        "the API server refuses more statuses than we know of: {by_event}"
    );
    has_failed_in_v1(&fixture)?;
    ensure!(fixture.list("pods")?.iter().all(|pod| {
        pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == "garbled-status"
    }));

    fixture.submit(&good("good"))?;
    for (name, workers) in [("good", 2), ("garbled-status", 1)] {
        fixture.run(name, workers)?;
        fixture.await_condition(name, "Running")?;
        fixture.finish(name)?;
        fixture.await_condition(name, "Succeeded")?;
    }
    operator.assert_alive()
}
