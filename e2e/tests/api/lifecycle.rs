//! The lives of jobs as clients of the Kubeflow operator know them: its own integration tests, step
//! by step (I1 to I4 and I7 of its suite), and what kubectl shows of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, FAILED, PodState, SOON, name, uid};
use e2e::audit::Audit;
use e2e::jobs::MpiJob;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// The Job controller waits ten seconds before it tries a failed launcher again.
const RETRY_MAX: Duration = Duration::from_secs(40);

/// Waits until the counters of a job read exactly so.
pub(crate) fn await_counters(fixture: &ApiFixture, job: &str, counters: &Value) -> Result<Value> {
    fixture.await_job(job, &format!("counters {counters}"), SOON, |job| {
        job["status"]["replicaStatuses"] == *counters
    })
}

pub(crate) fn await_events(fixture: &ApiFixture, job: &str, reasons: &[&str]) -> Result<()> {
    let what = format!("the events {reasons:?} of {job}");
    wait_for(&what, SOON, || {
        Ok((fixture.event_reasons(job)? == reasons).then_some(()))
    })
    .with_context(|| format!("there are {:?}", fixture.event_reasons(job)))
}

fn volumes(pod: &Value) -> Vec<&str> {
    let volumes = pod["volumes"].as_array().into_iter().flatten();
    volumes
        .filter_map(|volume| volume["name"].as_str())
        .collect()
}

/// What stays when a job is over, by resource.
type Lasting = [(&'static str, Value); 4];

/// All objects of a new job of two workers are there, are the job's own, and fit together.
fn assert_whole(fixture: &ApiFixture, job: &Value) -> Result<Lasting> {
    let workers = fixture.await_pods("pi", "worker", 2)?;
    let lasting = [
        ("services", fixture.await_object("services", "pi")?),
        (
            "configmaps",
            fixture.await_object("configmaps", "pi-config")?,
        ),
        ("secrets", fixture.await_object("secrets", "pi-ssh")?),
        ("jobs", fixture.await_object("jobs", "pi-launcher")?),
    ];
    for child in lasting.iter().map(|(_, child)| child).chain(&workers) {
        let owners = child["metadata"]["ownerReferences"]
            .as_array()
            .context("no owner")?;
        ensure!(
            owners.len() == 1 && owners[0]["uid"] == job["metadata"]["uid"],
            "{owners:?}"
        );
        ensure!(owners[0]["controller"] == true && owners[0]["blockOwnerDeletion"] == true);
    }
    let (service, launcher) = (&lasting[0].1, &lasting[3].1);
    for (label, value) in service["spec"]["selector"]
        .as_object()
        .context("no selector")?
    {
        ensure!(
            workers
                .iter()
                .all(|pod| pod["metadata"]["labels"][label] == *value)
        );
    }
    ensure!(volumes(&workers[0]["spec"]).contains(&"ssh-auth"));
    let mounted = volumes(&launcher["spec"]["template"]["spec"]);
    ensure!(
        mounted.contains(&"ssh-auth") && mounted.contains(&"mpi-job-config"),
        "{mounted:?}"
    );
    Ok(lasting)
}

#[test]
fn a_job_succeeds_as_clients_expect_step_by_step() -> Result<()> {
    let fixture = new_fixture("success")?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let _operator = fixture.operator()?;
    let job = fixture.submit(&MpiJob::named("pi").workers(2).clean_pod_policy("Running"))?;
    await_counters(&fixture, "pi", &json!({"Launcher": {}, "Worker": {}}))?;
    await_events(&fixture, "pi", &["MPIJobCreated"])?;
    let lasting = assert_whole(&fixture, &job)?;

    fixture.set(&fixture.pods("pi", "worker")?, PodState::Running)?;
    await_counters(
        &fixture,
        "pi",
        &json!({"Launcher": {}, "Worker": {"active": 2}}),
    )?;
    let pods = fixture.await_pods("pi", "launcher", 1)?;
    fixture.set(&pods, PodState::Running)?;
    await_counters(
        &fixture,
        "pi",
        &json!({"Launcher": {"active": 1}, "Worker": {"active": 2}}),
    )?;
    await_events(&fixture, "pi", &["MPIJobCreated", "MPIJobRunning"])?;
    ensure!(condition(&fixture.job("pi")?, "Running") == Some("True"));

    fixture.finish("pi")?;
    let job = fixture.await_condition("pi", "Succeeded")?;
    fixture.await_pods("pi", "worker", 0)?;
    ensure!(
        condition(&job, "Running") == Some("False"),
        "{}",
        job["status"]
    );
    let counters = &job["status"]["replicaStatuses"];
    ensure!(
        *counters == json!({"Launcher": {"succeeded": 1}, "Worker": {}}),
        "{counters}"
    );
    ensure!(
        job["status"]["completionTime"].is_string(),
        "{}",
        job["status"]
    );
    await_events(
        &fixture,
        "pi",
        &["MPIJobCreated", "MPIJobRunning", "MPIJobSucceeded"],
    )?;
    for (resource, child) in &lasting {
        let now = fixture
            .get(resource, name(child))?
            .context("a child is gone")?;
        ensure!(
            uid(&now) == uid(child),
            "{resource} {} was replaced",
            name(child)
        );
    }
    audit.assert_never_forbidden(&fixture.account.user)
}

#[test]
fn a_launcher_that_waits_is_made_when_all_workers_are_ready() -> Result<()> {
    let fixture = new_fixture("waiting")?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2).wait_for_workers())?;

    await_counters(&fixture, "pi", &json!({"Worker": {}}))?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    fixture.set(&workers, PodState::Running)?;
    await_counters(&fixture, "pi", &json!({"Worker": {"active": 2}}))?;
    ensure!(
        fixture.get("jobs", "pi-launcher")?.is_none(),
        "the launcher did not wait for Ready"
    );
    fixture.set(&workers[..1], PodState::Ready)?;
    fixture.await_job("pi", "one worker Ready", SOON, |job| {
        job["status"]["muster"]["ready"] == "1/2"
    })?;
    ensure!(
        fixture.get("jobs", "pi-launcher")?.is_none(),
        "the launcher did not wait for all"
    );

    fixture.set(&workers, PodState::Ready)?;
    fixture.await_object("jobs", "pi-launcher")?;
    await_counters(
        &fixture,
        "pi",
        &json!({"Launcher": {}, "Worker": {"active": 2}}),
    )?;
    let pods = fixture.await_pods("pi", "launcher", 1)?;
    fixture.set(&pods, PodState::Running)?;
    fixture.await_condition("pi", "Running")?;
    await_events(&fixture, "pi", &["MPIJobCreated", "MPIJobRunning"])
}

#[test]
fn a_launcher_that_fails_twice_fails_the_job() -> Result<()> {
    let fixture = new_fixture("failure")?;
    let _operator = fixture.operator()?;
    let job = MpiJob::named("pi")
        .workers(2)
        .clean_pod_policy("Running")
        .backoff_limit(1);
    fixture.submit(&job.launcher_restart_policy("Never"))?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;

    let first = fixture.await_pods("pi", "launcher", 1)?;
    fixture.set(&first, FAILED)?;
    let counters = json!({"Launcher": {"failed": 1}, "Worker": {"active": 2}});
    let job = await_counters(&fixture, "pi", &counters)?;
    ensure!(
        condition(&job, "Failed").is_none(),
        "one retry was allowed: {}",
        job["status"]
    );

    let second = wait_for("a second launcher", RETRY_MAX, || {
        let pods = fixture.pods("pi", "launcher")?;
        Ok(pods.into_iter().find(|pod| uid(pod) != uid(&first[0])))
    })?;
    fixture.set(
        &[second],
        PodState::Failed {
            reason: "Hopeless",
            message: "it cannot work",
        },
    )?;
    let job = fixture.await_condition("pi", "Failed")?;
    fixture.await_pods("pi", "worker", 0)?;
    ensure!(
        condition(&job, "Running") == Some("False"),
        "{}",
        job["status"]
    );
    ensure!(
        job["status"]["replicaStatuses"]["Launcher"]["failed"] == 2,
        "{}",
        job["status"]
    );
    ensure!(
        job["status"]["completionTime"].is_string(),
        "{}",
        job["status"]
    );
    assert_failure_is_told(&fixture, &job)
}

/// Condition and event give the reason and the message of the last launcher's pod.
fn assert_failure_is_told(fixture: &ApiFixture, job: &Value) -> Result<()> {
    let conditions = job["status"]["conditions"]
        .as_array()
        .context("no conditions")?;
    let failed = conditions
        .iter()
        .find(|condition| condition["type"] == "Failed");
    let failed = failed.context("it is not Failed")?;
    ensure!(
        failed["reason"] == "BackoffLimitExceeded/Hopeless",
        "{failed}"
    );
    let message = failed["message"].as_str().unwrap_or_default();
    ensure!(message.ends_with(": it cannot work"), "{failed}");
    let reasons = [
        "MPIJobCreated",
        "MPIJobRunning",
        "BackoffLimitExceeded/Hopeless",
    ];
    await_events(fixture, "pi", &reasons)?;
    let event = fixture.events("pi")?.pop().context("it was just seen")?;
    ensure!(
        event["type"] == "Warning" && event["message"] == failed["message"],
        "{event}"
    );
    Ok(())
}

#[test]
fn a_job_that_is_managed_elsewhere_is_left_alone() -> Result<()> {
    let fixture = new_fixture("elsewhere")?;
    let _operator = fixture.operator()?;
    fixture.submit(
        &MpiJob::named("theirs")
            .workers(2)
            .managed_by("kueue.x-k8s.io/multikueue"),
    )?;
    // By the time that a job submitted later is taken up, theirs would have been too.
    fixture.submit(
        &MpiJob::named("ours")
            .workers(1)
            .managed_by("kubeflow.org/mpi-operator"),
    )?;
    fixture.run("ours", 1)?;
    fixture.await_condition("ours", "Running")?;

    let theirs = fixture.job("theirs")?;
    ensure!(theirs.get("status").is_none(), "{}", theirs["status"]);
    ensure!(fixture.get("jobs", "theirs-launcher")?.is_none());
    ensure!(fixture.get("services", "theirs")?.is_none());
    ensure!(fixture.get("secrets", "theirs-ssh")?.is_none());
    ensure!(fixture.pods("theirs", "worker")?.is_empty());
    ensure!(fixture.events("theirs")?.is_empty());
    Ok(())
}

#[test]
fn a_deleted_job_takes_all_its_objects_with_it() -> Result<()> {
    let fixture = new_fixture("deletion")?;
    let _operator = fixture.operator()?;
    let job = fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    fixture.api.delete(&fixture.path("mpijobs", "pi"))?;
    wait_for("the job's objects to be gone", RETRY_MAX, || {
        let mut left = Vec::new();
        for resource in [
            "mpijobs",
            "services",
            "configmaps",
            "secrets",
            "jobs",
            "pods",
        ] {
            let objects = fixture.list(resource)?.into_iter();
            left.extend(objects.filter(|object| name(object).starts_with("pi")));
        }
        ensure!(
            left.is_empty(),
            "{:?} of {} are left",
            left.iter().map(name).collect::<Vec<_>>(),
            uid(&job)
        );
        Ok(Some(()))
    })
}
