//! Flyte on real nodes: flytekit's templates, made into jobs and read back by Flyte's own plugin. On
//! the way every status that a watch shows is held against what Flyte's readers of all versions need,
//! F1 to F10 of `docs/acceptance.md`.

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE};
use e2e::flyte::{Phase, Template, finalized};
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use crate::with_cluster;

/// Read as Flyte reads it.
const V1: &str = "mpijobs.v1.kubeflow.org";
const IMAGE: &str = "muster.test/openmpi4-nossh:1";

/// What Flyte reads on the way, each once, until it reads an end.
fn followed(fixture: &ClusterFixture, template: &Template, job: &str) -> Result<Vec<Phase>> {
    let mut read: Vec<Phase> = Vec::new();
    let field = format!("--field-selector=metadata.name={job}");
    fixture.watch(
        "an end as Flyte reads it",
        &[V1, &field],
        PATIENCE,
        |seen| {
            let Some(job) = seen.get(job) else {
                return Ok(None);
            };
            suits_flyte(job).with_context(|| job["status"].to_string())?;
            let phase = template.phase(job)?;
            if read.last() != Some(&phase) {
                read.push(phase.clone());
            }
            let over = ["Success", "RetryableFailure"].contains(&phase.phase.as_str());
            Ok(over.then(|| read.clone()))
        },
    )
}

fn time(condition: &Value) -> &str {
    condition["lastTransitionTime"].as_str().unwrap_or_default()
}

/// What holds of every status that Flyte may come to see.
fn suits_flyte(job: &Value) -> Result<()> {
    let status = &job["status"];
    let Some(conditions) = status["conditions"].as_array() else {
        return Ok(());
    };
    ensure!(status["startTime"].is_string(), "F1: no start time");
    ensure!(!conditions.is_empty(), "F2: an empty list");
    ensure!(
        conditions[0]["type"] == "Created" && conditions[0]["status"] == "True",
        "F3: not created first"
    );
    let holding: Vec<&Value> = conditions
        .iter()
        .filter(|c| c["status"] == "True")
        .collect();
    let (held, suspended): (Vec<&&Value>, _) =
        holding.iter().partition(|c| c["type"] != "Suspended");
    for (index, condition) in held.iter().enumerate() {
        let others = held[..index].iter();
        let is_newest = others
            .into_iter()
            .all(|other| time(other) < time(condition));
        ensure!(is_newest, "F4: {condition} is not the newest");
    }
    for condition in suspended {
        ensure!(time(condition) <= time(&conditions[0]), "F5: {condition}");
    }
    let terminal = |c: &&Value| c["type"] == "Succeeded" || c["type"] == "Failed";
    let ends: Vec<&Value> = conditions.iter().filter(terminal).collect();
    ensure!(ends.len() <= 1, "F8: {ends:?}");
    for end in ends {
        ensure!(end["status"] == "True", "F8: {end}");
        ensure!(condition(job, "Running") != Some("True"), "F7: it runs on");
        let words = |key: &str| end[key].as_str().is_some_and(|text| !text.is_empty());
        ensure!(words("reason") && words("message"), "F9: {end}");
        ensure!(
            status["completionTime"].is_string(),
            "F10: no completion time"
        );
    }
    Ok(())
}

fn live(fixture: &ClusterFixture, job: &str) -> Result<Value> {
    let job = fixture.cluster.get(&fixture.namespace, V1, job)?;
    job.context("the job is gone")
}

/// Flyte lets go of its jobs when it is done with them. Otherwise neither their namespace nor their CRD could ever
/// be deleted.
fn with_flyte(words: &str, test: impl FnOnce(&ClusterFixture) -> Result<()>) -> Result<()> {
    with_cluster(words, |fixture| {
        let result = test(fixture);
        let cluster = &fixture.cluster;
        let resource = "mpijobs.kubeflow.org";
        if cluster.get(&fixture.namespace, resource, NAME)?.is_some() {
            let patch = r#"--patch={"metadata": {"finalizers": null}}"#;
            let words = ["patch", resource, NAME, "--type=merge", patch, "-n"];
            cluster.kubectl(&[&words[..], &[&fixture.namespace]].concat())?;
        }
        result
    })
}

fn phases(read: &[Phase]) -> Vec<&str> {
    read.iter().map(|phase| phase.phase.as_str()).collect()
}

/// A name with dots and a digit in front, as Flyte's may be (F15).
const NAME: &str = "4f2a.n0-0";
/// What its workers call themselves: a host's own name has no dots.
const HOSTS: [&str; 2] = ["4f2a-n0-0-worker-0", "4f2a-n0-0-worker-1"];

#[test]
fn a_flyte_task_is_queued_runs_and_succeeds() -> Result<()> {
    with_flyte("flyte-pi", |fixture| {
        let template = Template::of_task("pi", IMAGE)?;
        fixture.create(&template.build(&fixture.namespace, NAME)?)?;
        let read = followed(fixture, &template, NAME)?;
        ensure!(
            phases(&read) == ["Queued", "Running", "Success"],
            "{read:?}"
        );

        let launcher = format!("{NAME}-launcher");
        let output = fixture.log(&launcher)?;
        output.expect(2, &HOSTS)?;
        // The task's environment is the worker container's, which ranks inherit.
        let said = output
            .text
            .lines()
            .filter(|line| *line == "said so")
            .count();
        ensure!(
            said == 2,
            "{said} ranks have the task's environment:\n{}",
            output.text
        );
        // F11, F14: names and labels stay, and so does the job.
        let pod = fixture.pod(&launcher)?;
        ensure!(pod["metadata"]["labels"]["execution-id"] == NAME);
        ensure!(pod["spec"]["containers"][0]["name"] == "mpi");

        let written = finalized(&live(fixture, NAME)?)?;
        fixture
            .cluster
            .kubectl_with(&["replace", "-f", "-"], &written.to_string())?;
        let after = live(fixture, NAME)?;
        ensure!(
            after["metadata"]["finalizers"].is_null(),
            "{}",
            after["metadata"]
        );
        ensure!(template.phase(&after)?.phase == "Success");
        Ok(())
    })
}

#[test]
fn the_task_of_the_documentation_runs_as_it_is() -> Result<()> {
    with_flyte("flyte-seed", |fixture| {
        let template = Template::of_task("mpi_task", "muster.test/seeds:1")?;
        fixture.create(&template.build(&fixture.namespace, NAME)?)?;
        let read = followed(fixture, &template, NAME)?;
        ensure!(
            phases(&read) == ["Queued", "Running", "Success"],
            "{read:?}"
        );
        let output = fixture.log(&format!("{NAME}-launcher"))?;
        output.expect(2, &HOSTS)?;
        for words in [
            "called as /opt/venv/bin/entrypoint.py pyflyte-execute --inputs /tmp/flyte/inputs.pb",
            "task-module mpi_task task-name mpi_task",
            "NCCL_DEBUG=INFO",
            &format!("FLYTE_INTERNAL_EXECUTION_ID={NAME}"),
        ] {
            ensure!(
                output.text.contains(words),
                "no `{words}` in\n{}",
                output.text
            );
        }
        Ok(())
    })
}

#[test]
fn a_flyte_task_that_fails_says_why_to_flytes_user() -> Result<()> {
    with_flyte("flyte-failing", |fixture| {
        let template = Template::of_task("failing", IMAGE)?;
        fixture.create(&template.build(&fixture.namespace, NAME)?)?;
        let read = followed(fixture, &template, NAME)?;
        ensure!(
            phases(&read).last() == Some(&"RetryableFailure"),
            "{read:?}"
        );
        let told = &read.last().context("it has ended")?.message;
        let muster = live(fixture, NAME)?["status"]["muster"].take();
        for word in [muster["reason"].as_str(), muster["message"].as_str()] {
            let word = word.context("a failure has a reason and a message")?;
            ensure!(told.contains(word), "`{word}` is not in `{told}`");
        }
        ensure!(
            told.contains("exited with 3") && told.contains("out of data"),
            "{told}"
        );
        Ok(())
    })
}

#[test]
fn a_flyte_task_that_is_held_is_queued() -> Result<()> {
    with_flyte("flyte-held", |fixture| {
        let template = Template::of_task("pi", IMAGE)?;
        let mut job = template.build(&fixture.namespace, NAME)?;
        job["spec"]["runPolicy"]["suspend"] = true.into();
        fixture.create(&job)?;
        let held = wait_for("condition Suspended", PATIENCE, || {
            let job = live(fixture, NAME)?;
            Ok(Some(job).filter(|job| condition(job, "Suspended") == Some("True")))
        })?;
        suits_flyte(&held)?;
        ensure!(template.phase(&held)?.phase == "Queued");
        fixture.suspend(NAME, false)?;
        let read = followed(fixture, &template, NAME)?;
        ensure!(
            phases(&read) == ["Queued", "Running", "Success"],
            "{read:?}"
        );
        // F6.
        ensure!(condition(&live(fixture, NAME)?, "Suspended") == Some("False"));
        Ok(())
    })
}

#[test]
fn a_flyte_task_that_is_aborted_loses_its_pods_and_keeps_its_finalizer() -> Result<()> {
    with_flyte("flyte-aborted", |fixture| {
        let template = Template::of_task("pi", IMAGE)?;
        let mut job = template.build(&fixture.namespace, NAME)?;
        let launcher = "/spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/args";
        let args = job.pointer_mut(launcher).context("it has arguments")?;
        *args = json!(["sleep", "600"]);
        fixture.create(&job)?;
        wait_for("condition Running", PATIENCE, || {
            let job = live(fixture, NAME)?;
            Ok((condition(&job, "Running") == Some("True")).then_some(()))
        })?;
        fixture
            .cluster
            .kubectl(&["delete", "-n", &fixture.namespace, V1, NAME, "--wait=false"])?;
        wait_for("no pods", PATIENCE, || {
            let selector = format!("training.kubeflow.org/job-name={NAME}");
            let pods = fixture
                .cluster
                .list(&fixture.namespace, "pods", &selector)?;
            Ok(pods.is_empty().then_some(()))
        })?;
        let held = live(fixture, NAME)?;
        ensure!(held["metadata"]["finalizers"] == json!(["flyte.org/finalizer-k8s"]));
        let written = finalized(&held)?;
        fixture
            .cluster
            .kubectl_with(&["replace", "-f", "-"], &written.to_string())?;
        wait_for("the job to go", PATIENCE, || {
            Ok(fixture
                .cluster
                .get(&fixture.namespace, V1, NAME)?
                .is_none()
                .then_some(()))
        })
    })
}
