//! A job that is created suspended, edited meanwhile, resumed, suspended again and resumed again, as
//! Kueue does it (I3 of the Kubeflow operator's suite).

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, uid};
use e2e::audit::Audit;
use e2e::jobs::MpiJob;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use super::fixture::new_fixture;
use super::lifecycle::{await_counters, await_events};

fn edit_template(fixture: &ApiFixture, template: &Value) -> Result<Value> {
    fixture.edit(
        "pi",
        &json!({"spec": {"mpiReplicaSpecs": {"Launcher": {"template": template}}}}),
    )
}

fn suspend(fixture: &ApiFixture, suspend: bool) -> Result<Value> {
    fixture.edit("pi", &json!({"spec": {"runPolicy": {"suspend": suspend}}}))
}

/// Waits for the launcher's Job to be suspended, or to go on.
fn await_suspend(fixture: &ApiFixture, suspended: bool) -> Result<Value> {
    wait_for(
        &format!("the launcher's Job to have suspend: {suspended}"),
        SOON,
        || {
            let launcher = fixture
                .get("jobs", "pi-launcher")?
                .context("there is no launcher")?;
            let now = launcher["spec"]["suspend"].as_bool().unwrap_or(false);
            Ok((now == suspended).then_some(launcher))
        },
    )
}

/// A job that is created suspended has all but pods, and no start time.
fn assert_held(fixture: &ApiFixture) -> Result<()> {
    let job = fixture.await_condition("pi", "Suspended")?;
    let launcher = fixture.await_object("jobs", "pi-launcher")?;
    ensure!(launcher["spec"]["suspend"] == true);
    ensure!(
        fixture.pods("pi", "worker")?.is_empty(),
        "a suspended job has workers"
    );
    ensure!(
        condition(&job, "Created") == Some("True"),
        "{}",
        job["status"]
    );
    ensure!(
        condition(&job, "Running") == Some("False"),
        "{}",
        job["status"]
    );
    ensure!(
        job["status"]["startTime"].is_null(),
        "a job that never ran has a start time"
    );
    await_events(fixture, "pi", &["MPIJobCreated", "MPIJobSuspended"])
}

/// Resumes the job, which was edited: all five directives must reach the launcher.
fn resume_with_directives(fixture: &ApiFixture) -> Result<Value> {
    let edited = json!({
        "metadata": {"labels": {"foo": "bar"}, "annotations": {"note": "one"}},
        "spec": {
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "schedulingGates": [{"name": "example.com/gate"}],
        },
    });
    edit_template(fixture, &edited)?;
    suspend(fixture, false)?;
    fixture.await_pods("pi", "worker", 2)?;
    let launcher = await_suspend(fixture, false)?;
    let template = &launcher["spec"]["template"];
    for key in ["labels", "annotations"] {
        for (name, value) in edited["metadata"][key].as_object().into_iter().flatten() {
            ensure!(
                template["metadata"][key][name] == *value,
                "{key} {name}: {template}"
            );
        }
    }
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        ensure!(
            template["spec"][key] == edited["spec"][key],
            "{key}: {template}"
        );
    }
    let job = fixture.await_job("pi", "resumed", SOON, |job| {
        condition(job, "Suspended") == Some("False")
    })?;
    ensure!(job["status"]["startTime"].is_string(), "{}", job["status"]);
    await_events(
        fixture,
        "pi",
        &["MPIJobCreated", "MPIJobSuspended", "MPIJobResumed"],
    )?;
    Ok(launcher)
}

/// Suspends the running job: its pods go, and its counters are zero.
fn hold_again(fixture: &ApiFixture) -> Result<()> {
    suspend(fixture, true)?;
    fixture.await_pods("pi", "worker", 0)?;
    await_suspend(fixture, true)?;
    fixture.await_pods("pi", "launcher", 0)?;
    let job = await_counters(fixture, "pi", &json!({"Launcher": {}, "Worker": {}}))?;
    ensure!(
        condition(&job, "Suspended") == Some("True"),
        "{}",
        job["status"]
    );
    ensure!(
        condition(&job, "Running") == Some("False"),
        "{}",
        job["status"]
    );
    Ok(())
}

#[test]
fn a_job_is_suspended_edited_and_resumed_twice() -> Result<()> {
    let fixture = new_fixture("suspend")?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2).suspended())?;
    assert_held(&fixture)?;
    let launcher = resume_with_directives(&fixture)?;
    fixture.run("pi", 2)?;
    await_counters(
        &fixture,
        "pi",
        &json!({"Launcher": {"active": 1}, "Worker": {"active": 2}}),
    )?;
    fixture.await_condition("pi", "Running")?;
    hold_again(&fixture)?;

    let edited = json!({
        "metadata": {"labels": {"foo": "again"}},
        "spec": {"nodeSelector": {"zone": "b"}},
    });
    edit_template(&fixture, &edited)?;
    suspend(&fixture, false)?;
    fixture.await_pods("pi", "worker", 2)?;
    let again = await_suspend(&fixture, false)?;
    let template = &again["spec"]["template"];
    ensure!(
        template["metadata"]["labels"]["foo"] == "again",
        "{template}"
    );
    ensure!(
        template["spec"]["nodeSelector"] == json!({"zone": "b"}),
        "{template}"
    );
    ensure!(
        uid(&again) == uid(&launcher),
        "the launcher's Job was replaced"
    );
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    fixture.finish("pi")?;
    fixture.await_condition("pi", "Succeeded")?;
    audit.assert_never_forbidden(&fixture.account.user)
}

#[test]
fn peer_defect_05_a_resumed_launcher_still_waits_for_its_workers() -> Result<()> {
    let fixture = new_fixture("suspend")?;
    let _operator = fixture.operator()?;
    fixture.submit(
        &MpiJob::named("pi")
            .workers(2)
            .suspended()
            .wait_for_workers(),
    )?;
    fixture.await_condition("pi", "Suspended")?;
    suspend(&fixture, false)?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    fixture.set(&workers, PodState::Running)?;
    fixture.await_job("pi", "two workers", SOON, |job| {
        job["status"]["replicaStatuses"]["Worker"]["active"] == 2
    })?;
    ensure!(
        fixture.pods("pi", "launcher")?.is_empty(),
        "the launcher did not wait for Ready"
    );
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    Ok(())
}
