//! Jobs that are valid and still cannot start: the API server refuses one of their objects, or
//! somebody else's object holds a name that they need. Such a job says why, does not press, leaves
//! what is not its own alone, and goes on by itself once the obstacle is gone.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::api::collection;
use e2e::api_fixture::{ApiFixture, SOON, name, uid};
use e2e::audit::{Audit, Request, table};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// A user who looks at a job finds out why it does not start within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Nobody tells the operator that an object that it does not watch is gone: it tries again.
const NOTICED_WITHIN: Duration = Duration::from_secs(35);
/// For so long a hopeless job is watched…
const HOPELESS: Duration = Duration::from_secs(20);
/// …and may ask so often: its other objects, its status, its events, and its tries…
const HOPELESS_REQUESTS_MAX: usize = 15;
/// …which are one at once, one after 5 seconds and one after 10 more, each of a single worker.
const HOPELESS_TRIES_MAX: usize = 4;
/// The first word, a correction while the API server still counts, and one for each of three tries.
const QUOTA_STATUSES_MAX: usize = 5;

fn await_reason(
    fixture: &ApiFixture,
    job: &str,
    reason: &str,
    at_most: Duration,
) -> Result<String> {
    let job = fixture.await_job(job, reason, at_most, |job| {
        job["status"]["muster"]["reason"] == reason
    })?;
    let conditions = job["status"]["muster"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let accepted = conditions
        .iter()
        .find(|condition| condition["type"] == "Accepted");
    ensure!(
        accepted.is_some_and(|accepted| accepted["status"] == "False"),
        "{}",
        job["status"]
    );
    Ok(accepted
        .map(|accepted| accepted["message"].to_string())
        .unwrap_or_default())
}

fn run_to_success(fixture: &ApiFixture, job: &str, workers: usize) -> Result<()> {
    fixture.run(job, workers)?;
    fixture.await_condition(job, "Running")?;
    fixture.finish(job)?;
    fixture.await_condition(job, "Succeeded")?;
    Ok(())
}

fn assert_patient(job: &str, requests: &[Request]) -> Result<()> {
    let about = requests
        .iter()
        .filter(|request| request.name.starts_with(job));
    let about: Vec<Request> = about.cloned().collect();
    let tries = about.iter().filter(|request| request.code == 422).count();
    let total = about.len();
    say(&format!(
        "requests about {job} in {HOPELESS:?}: {total}, of them {tries} refused"
    ));
    ensure!(
        total <= HOPELESS_REQUESTS_MAX && tries <= HOPELESS_TRIES_MAX,
        "the operator presses:\n{}",
        table(&about)
    );
    Ok(())
}

#[test]
fn a_template_that_the_api_server_refuses_is_told_and_not_pressed_and_can_be_mended() -> Result<()>
{
    let fixture = new_fixture("template")?;
    let operator = fixture.operator()?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let container = |role: &str| format!("/spec/mpiReplicaSpecs/{role}/template/spec/containers/0");
    let mount = json!([{"name": "data", "mountPath": "/data"}]);
    let bad = [
        (
            "no-image",
            "Worker",
            "image",
            Value::Null,
            "spec.containers[0].image: Required value",
        ),
        (
            "no-volume",
            "Worker",
            "volumeMounts",
            mount,
            "volumeMounts[0].name: Not found: \\\"data\\\"",
        ),
        (
            "no-program",
            "Launcher",
            "image",
            Value::Null,
            "spec.containers[0].image: Required value",
        ),
    ];
    for (job, role, field, value, _) in &bad {
        let field = format!("{}/{field}", container(role));
        // However many workers are hopeless, one of them shows it.
        let workers = if *job == "no-image" { 64 } else { 2 };
        fixture.submit(
            &MpiJob::named(job)
                .workers(workers)
                .with(&field, value.clone()),
        )?;
    }
    let end = Instant::now() + TOLD_WITHIN;
    for (job, _, _, _, said) in &bad {
        let left = end.saturating_duration_since(Instant::now());
        let message = await_reason(&fixture, job, "Invalid", left)?;
        ensure!(
            message.contains(said),
            "{job}: `{said}` is not in {message}"
        );
    }

    std::thread::sleep(HOPELESS);
    operator.assert_alive()?;
    let requests = audit.requests_of(&fixture.account.user)?;
    for (job, ..) in &bad {
        assert_patient(job, &requests)?;
    }

    for (job, role, field, ..) in &bad {
        let mended = if *field == "image" {
            json!("nowhere.invalid/none:0")
        } else {
            json!([])
        };
        let container =
            json!([{"name": "main", "image": "nowhere.invalid/none:0", *field: mended}]);
        let template = json!({"template": {"spec": {"containers": container}}});
        fixture.edit(
            job,
            &json!({"spec": {"mpiReplicaSpecs": {*role: template}}}),
        )?;
        run_to_success(&fixture, job, if *job == "no-image" { 64 } else { 2 })?;
    }
    Ok(())
}

/// A job, and somebody else's object that holds a name which the job needs.
struct Foreign {
    job: &'static str,
    resource: &'static str,
    name: &'static str,
    object: Value,
}

fn foreign_objects() -> [Foreign; 5] {
    let of = |job, resource, name, object| Foreign {
        job,
        resource,
        name,
        object,
    };
    let pod = json!({"containers": [{"name": "theirs", "image": "nowhere.invalid/none:0"}]});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": pod["containers"]}});
    let job = json!({"spec": {"suspend": true, "template": template}});
    [
        of(
            "service",
            "services",
            "service",
            json!({"spec": {"clusterIP": "None"}}),
        ),
        of(
            "config",
            "configmaps",
            "config-config",
            json!({"data": {"hostfile": "x"}}),
        ),
        of(
            "secret",
            "secrets",
            "secret-ssh",
            json!({"stringData": {"key": "x"}}),
        ),
        of("pod", "pods", "pod-worker-1", json!({"spec": pod})),
        of("job", "jobs", "job-launcher", job),
    ]
}

/// Stores the objects, and returns them as they are once nobody has anything to add to them.
fn store(fixture: &ApiFixture, foreign: &[Foreign]) -> Result<Vec<Option<Value>>> {
    for Foreign {
        resource,
        name,
        object,
        ..
    } in foreign
    {
        let mut object = object.clone();
        object["metadata"] = json!({"name": name});
        fixture.create(resource, &object)?;
    }
    // The Job controller says once that it is suspended.
    wait_for("the foreign Job to be at rest", SOON, || {
        let job = fixture.get("jobs", "job-launcher")?;
        Ok(job.filter(|job| !job["status"]["conditions"].is_null()))
    })?;
    foreign
        .iter()
        .map(|Foreign { resource, name, .. }| fixture.get(resource, name))
        .collect()
}

/// The job says who holds which name, and announces it once.
fn assert_told(fixture: &ApiFixture, Foreign { job, name, .. }: &Foreign) -> Result<()> {
    let message = await_reason(fixture, job, "NameTaken", SOON)?;
    ensure!(message.contains(name), "{job}: {name} is not in {message}");
    let told = wait_for(&format!("an event of {job}"), SOON, || {
        let reasons = fixture.event_reasons(job)?;
        Ok(reasons
            .iter()
            .any(|reason| reason == "ErrResourceExists")
            .then_some(reasons))
    })?;
    let repeated = told
        .iter()
        .filter(|reason| *reason == "ErrResourceExists")
        .count();
    ensure!(repeated == 1, "{job}: {told:?}");
    Ok(())
}

#[test]
fn a_name_that_somebody_else_holds_is_waited_for_and_never_touched() -> Result<()> {
    let fixture = new_fixture("names")?;
    let foreign = foreign_objects();
    let before = store(&fixture, &foreign)?;
    let _operator = fixture.operator()?;
    for Foreign { job, .. } in &foreign {
        fixture.submit(&MpiJob::named(job).workers(2))?;
    }
    for foreign in &foreign {
        assert_told(&fixture, foreign)?;
    }
    for (Foreign { resource, name, .. }, before) in foreign.iter().zip(&before) {
        ensure!(
            fixture.get(resource, name)? == *before,
            "{resource} {name} was changed"
        );
        let path = fixture.path(resource, name);
        fixture
            .api
            .delete(&format!("{path}?propagationPolicy=Background"))?;
    }
    let (freed, end) = (Instant::now(), Instant::now() + NOTICED_WITHIN);
    for Foreign { job, .. } in &foreign {
        let left = end.saturating_duration_since(Instant::now());
        wait_for(&format!("job {job} to go on"), left, || {
            let launcher = fixture.get("jobs", &format!("{job}-launcher"))?;
            let owned = launcher.is_some_and(|job| job["metadata"]["ownerReferences"].is_array());
            Ok((owned && fixture.pods(job, "worker")?.len() == 2).then_some(()))
        })?;
    }
    say(&format!(
        "all five jobs went on within {:?}",
        freed.elapsed()
    ));
    for Foreign { job, .. } in &foreign {
        run_to_success(&fixture, job, 2)?;
    }
    Ok(())
}

#[test]
fn a_full_quota_is_told_and_waited_for() -> Result<()> {
    let fixture = new_fixture("quota")?;
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "4"}}});
    fixture.create("resourcequotas", &quota)?;
    wait_for("the quota to be counted", SOON, || {
        let quota = fixture.get("resourcequotas", "few")?;
        Ok(quota.filter(|quota| quota["status"]["used"]["pods"].is_string()))
    })?;
    let _operator = fixture.operator()?;
    let audit = Audit::from_now(&fixture.cluster)?;
    fixture.submit(&MpiJob::named("pi").workers(16))?;
    // The first count may be corrected while the API server still counts.
    wait_for(
        "the job to tell of the quota and of what it has",
        SOON,
        || {
            let job = fixture.get("mpijobs", "pi")?.unwrap_or_default();
            let muster = &job["status"]["muster"];
            let message = muster["message"].as_str().unwrap_or_default();
            let told =
                muster["reason"] == "QuotaExceeded" && message.contains("4 of 16 workers exist");
            Ok(told.then_some(()))
        },
    )?;
    ensure!(
        fixture.get("jobs", "pi-launcher")?.is_none(),
        "the launcher did not wait for workers"
    );
    let first = fixture.await_pods("pi", "worker", 4)?;
    std::thread::sleep(HOPELESS);
    let requests = audit.requests_of(&fixture.account.user)?;
    say(&format!(
        "requests of a job without quota in {HOPELESS:?}:\n{}",
        table(&requests)
    ));
    let told = requests
        .iter()
        .filter(|request| request.resource == "mpijobs/status")
        .count();
    ensure!(
        told <= QUOTA_STATUSES_MAX,
        "its status changed {told} times"
    );

    fixture.api.delete(&format!(
        "{}/few",
        collection(&fixture.namespace, "resourcequotas")
    ))?;
    wait_for("the job to go on", NOTICED_WITHIN, || {
        Ok((fixture.pods("pi", "worker")?.len() == 16).then_some(()))
    })?;
    let workers = fixture.pods("pi", "worker")?;
    for first in &first {
        let kept = workers.iter().any(|pod| uid(pod) == uid(first));
        ensure!(kept, "worker {} was replaced", name(first));
    }
    run_to_success(&fixture, "pi", 16)
}

/// A quota refuses before the API server looks for the name of a Secret.
#[test]
fn s10_a_quota_for_secrets_does_not_cost_a_user_his_own() -> Result<()> {
    let fixture = new_fixture("secrets")?;
    let own = json!({"metadata": {"name": "pi-ssh"}, "stringData": {"key": "x"}});
    let own = fixture.create("secrets", &own)?;
    let full = fixture.list("secrets")?.len().to_string();
    let quota = json!({"metadata": {"name": "full"}, "spec": {"hard": {"count/secrets": full}}});
    fixture.create("resourcequotas", &quota)?;
    wait_for("the quota to be counted", SOON, || {
        let quota = fixture.get("resourcequotas", "full")?;
        Ok(quota.filter(|quota| quota["status"]["used"]["count/secrets"] == full))
    })?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    let message = await_reason(&fixture, "pi", "QuotaExceeded", SOON)?;
    ensure!(message.contains("pi-ssh"), "{message}");

    let path = fixture.path("resourcequotas", "full");
    fixture.api.delete(&path)?;
    await_reason(&fixture, "pi", "NameTaken", NOTICED_WITHIN)?;
    // Long enough for an operator that took it for a Secret of the job.
    std::thread::sleep(HOPELESS);
    ensure!(
        fixture.get("secrets", "pi-ssh")? == Some(own),
        "the user's Secret was replaced"
    );
    fixture.api.delete(&fixture.path("secrets", "pi-ssh"))?;
    wait_for("the job to go on", NOTICED_WITHIN, || {
        Ok((fixture.pods("pi", "worker")?.len() == 2).then_some(()))
    })?;
    run_to_success(&fixture, "pi", 2)
}

/// The launcher mounts the Secret of one transport. A client whose types do not have the field drops it, and
/// the job goes on as it began.
#[test]
fn the_transport_of_a_job_that_began_cannot_be_changed() -> Result<()> {
    let fixture = new_fixture("transport-stays")?;
    let _operator = fixture.operator()?;
    let transport = |transport: Value| json!({"spec": {"muster": {"transport": transport}}});
    let begins = |job: &str, transport: &str| {
        fixture.await_job(job, "it has keys", SOON, |job| {
            let muster = &job["status"]["muster"];
            muster["keys"].is_object() && muster["transport"] == transport
        })
    };
    for (name, job, its_own, other) in [
        ("plain", MpiJob::named("plain").workers(1), "SSH", "Agent"),
        (
            "agent",
            MpiJob::named("agent")
                .workers(1)
                .with("/spec/muster/transport", "Agent"),
            "Agent",
            "SSH",
        ),
    ] {
        fixture.submit(&job)?;
        begins(name, its_own)?;
        let path = fixture.path("mpijobs", name);
        let refused = fixture
            .api
            .send("PATCH", &path, Some(&transport(other.into())))?;
        let field = "spec.muster.transport: cannot be changed";
        ensure!(refused.message().contains(field), "{refused:?}");
        let before = fixture.await_pods(name, "worker", 1)?;
        fixture.edit(name, &transport(Value::Null))?;
        fixture
            .api
            .delete(&fixture.path("pods", &format!("{name}-worker-0")))?;
        wait_for("the worker to be recreated", SOON, || {
            let pods = fixture.pods(name, "worker")?;
            let is_new = |pod: &Value| uid(pod) != uid(&before[0]);
            Ok((pods.len() == 1 && pods.iter().all(is_new)).then_some(()))
        })?;
        begins(name, its_own)?;
        fixture.edit(name, &transport(its_own.into()))?;
    }
    Ok(())
}
