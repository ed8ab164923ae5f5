//! Flyte's own plugin against the real API server: the jobs that it makes of flytekit's templates are
//! taken as they are, and what it reads from their status is what happened. Pods do what the tests
//! say; `cluster/flyte.rs` has the same on real nodes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, uid};
use e2e::flyte::{Phase, Template, finalized};
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// Flyte makes an error of a job that has no start time after this.
const FLYTES_PATIENCE: Duration = Duration::from_secs(60);

fn path(fixture: &ApiFixture, job: &str) -> String {
    let namespace = &fixture.namespace;
    let path = format!("/apis/kubeflow.org/v1/namespaces/{namespace}/mpijobs/{job}");
    path.trim_end_matches('/').to_owned()
}

fn live(fixture: &ApiFixture, job: &str) -> Result<Value> {
    let found = fixture.api.get(&path(fixture, job))?;
    found.with_context(|| format!("job {job} is gone"))
}

/// A task of the documentation, whose job has dots in its name as Flyte's may have.
fn submitted(fixture: &ApiFixture, name: &str) -> Result<Template> {
    let template = Template::of_task("mpi_task", "flyte.invalid/horovod:1")?;
    let job = template.build(&fixture.namespace, name)?;
    fixture.api.create(&path(fixture, ""), &job)?;
    Ok(template)
}

fn await_phase(fixture: &ApiFixture, template: &Template, job: &str, phase: &str) -> Result<Phase> {
    wait_for(&format!("Flyte to read {phase}"), SOON, || {
        let read = template.phase(&live(fixture, job)?)?;
        Ok(Some(read).filter(|read| read.phase == phase))
    })
}

/// Makes workers and launcher run.
fn run(fixture: &ApiFixture, job: &str) -> Result<Vec<Value>> {
    let workers = fixture.await_pods(job, "worker", 2)?;
    fixture.set(&workers, PodState::Ready)?;
    let launcher = fixture.await_pods(job, "master", 1)?;
    fixture.set(&launcher, PodState::Ready)?;
    Ok(launcher)
}

#[test]
fn a_task_is_queued_then_runs_then_succeeds() -> Result<()> {
    let fixture = new_fixture("flyte")?;
    let name = "a2b3.n0-0";
    let template = submitted(&fixture, name)?;
    // Before any operator has seen it: Flyte must not take that for an error.
    let read = template.phase(&live(&fixture, name)?)?;
    ensure!(
        read.phase == "Queued" && read.reason == "JobCreated",
        "{read:?}"
    );
    let _operator = fixture.operator()?;
    let started = fixture.await_job(name, "a start time", SOON, |job| {
        job["status"]["startTime"].is_string()
    })?;
    ensure!(SOON < FLYTES_PATIENCE);
    ensure!(template.phase(&started)?.phase == "Queued");

    let launcher = run(&fixture, name)?;
    await_phase(&fixture, &template, name, "Running")?;
    fixture.set(&launcher, PodState::Succeeded)?;
    await_phase(&fixture, &template, name, "Success")?;
    Ok(())
}

#[test]
fn what_ends_in_the_second_it_began_is_read_as_ended() -> Result<()> {
    let fixture = new_fixture("flyte")?;
    let template = submitted(&fixture, "quick")?;
    let _operator = fixture.operator()?;
    let launcher = run(&fixture, "quick")?;
    fixture.set(&launcher, PodState::Succeeded)?;
    await_phase(&fixture, &template, "quick", "Success")?;
    Ok(())
}

#[test]
fn workers_sleep_although_flyte_gives_them_the_launchers_words() -> Result<()> {
    let fixture = new_fixture("flyte")?;
    let _template = submitted(&fixture, "words")?;
    let _operator = fixture.operator()?;
    let workers = fixture.await_pods("words", "worker", 2)?;
    let launcher = fixture.await_pods("words", "master", 1)?;
    let words = |pod: &Value| {
        let container = &pod["spec"]["containers"][0];
        format!("{} {}", container["command"], container["args"])
    };
    ensure!(
        !words(&workers[0]).contains("entrypoint.py"),
        "{}",
        words(&workers[0])
    );
    ensure!(
        words(&launcher[0]).contains("entrypoint.py"),
        "{}",
        words(&launcher[0])
    );
    ensure!(workers[0]["spec"]["containers"][0]["name"] == "mpi");
    let label = &workers[0]["metadata"]["labels"]["execution-id"];
    ensure!(label == "words", "the task's label is {label}");
    Ok(())
}

#[test]
fn a_failure_reaches_flytes_user_with_reason_and_message() -> Result<()> {
    let fixture = new_fixture("flyte")?;
    let template = submitted(&fixture, "bad")?;
    let _operator = fixture.operator()?;
    let launcher = run(&fixture, "bad")?;
    await_phase(&fixture, &template, "bad", "Running")?;
    fixture.set(&launcher, e2e::api_fixture::FAILED)?;
    let read = await_phase(&fixture, &template, "bad", "RetryableFailure")?;
    let job = fixture.await_condition("bad", "Failed")?;
    let conditions = job["status"]["conditions"].as_array();
    let failed = conditions
        .into_iter()
        .flatten()
        .find(|c| c["type"] == "Failed");
    let failed = failed.context("it has failed")?;
    for part in ["reason", "message"] {
        let part = failed[part].as_str().context("a failure says why")?;
        ensure!(
            !part.is_empty() && read.message.contains(part),
            "{part} in {read:?}"
        );
    }
    ensure!(read.message.contains("bad-launcher"), "{read:?}");
    Ok(())
}

#[test]
fn a_suspended_task_is_queued_and_runs_when_it_may() -> Result<()> {
    let fixture = new_fixture("flyte")?;
    let template = submitted(&fixture, "held")?;
    let _operator = fixture.operator()?;
    run(&fixture, "held")?;
    await_phase(&fixture, &template, "held", "Running")?;
    // As Kueue takes its quota back.
    let suspend = |suspend: bool| json!({"spec": {"runPolicy": {"suspend": suspend}}});
    fixture.edit("held", &suspend(true))?;
    fixture.await_condition("held", "Suspended")?;
    await_phase(&fixture, &template, "held", "Queued")?;
    fixture.edit("held", &suspend(false))?;
    run(&fixture, "held")?;
    await_phase(&fixture, &template, "held", "Running")?;
    Ok(())
}

#[test]
fn flyte_takes_its_finalizer_off_and_changes_nothing_else() -> Result<()> {
    let fixture = new_fixture("flyte")?;
    let template = submitted(&fixture, "done")?;
    let operator = fixture.operator()?;
    let launcher = run(&fixture, "done")?;
    fixture.set(&launcher, PodState::Succeeded)?;
    await_phase(&fixture, &template, "done", "Success")?;
    let before = live(&fixture, "done")?;
    ensure!(before["metadata"]["finalizers"] == json!(["flyte.org/finalizer-k8s"]));

    let written = finalized(&before)?;
    let answer = fixture
        .api
        .send("PUT", &path(&fixture, "done"), Some(&written))?;
    let after = answer.accepted()?;
    ensure!(after["metadata"]["finalizers"].is_null());
    ensure!(
        after["status"] == before["status"],
        "a PUT of the job wrote its status"
    );
    ensure!(template.phase(&after)?.phase == "Success");
    let again = fixture.await_pods("done", "master", 1)?;
    ensure!(
        uid(&again[0]) == uid(&launcher[0]),
        "the launcher was recreated"
    );
    operator.assert_alive()
}
