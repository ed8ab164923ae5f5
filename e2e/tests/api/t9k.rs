//! T9k's MPIJob on the real API server: bad jobs are refused by field, good ones are not, and a job
//! lives as the manual says, from its first pod to what is left of it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use e2e::figures::say;
use e2e::ground::{Ground, PodState, SOON, name};
use e2e::operator::repository;
use e2e::wait_for;
use serde_json::{Value, json};

use super::stage::ground;

fn path(ground: &Ground, job: &str) -> String {
    let namespace = &ground.namespace;
    format!("/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/mpijobs/{job}")
        .trim_end_matches('/')
        .to_owned()
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "worker": {
                "replicas": 2,
                "extraMPIArgs": ["-N", "3"],
                "cmd": ["./random_walk"],
                "template": {"spec": {"containers": [{"name": "mpi-worker", "image": "w"}]}},
            },
            "runPolicy": {"cleanUpWorkers": true},
            "runMode": {"pause": {"enabled": false,
                "resumeSpecs": [{"type": "worker", "command": ["/usr/bin/sshd"]}]}},
        },
    })
}

fn await_phase(ground: &Ground, job: &str, phase: &str) -> Result<Value> {
    let found = wait_for(&format!("{job} to be {phase}"), SOON, || {
        let found = ground
            .api
            .get(&path(ground, job))?
            .context("the job is gone")?;
        Ok(Some(found).filter(|job| job["status"]["phase"] == phase))
    });
    found.with_context(|| match ground.api.get(&path(ground, job)) {
        Ok(Some(job)) => format!("its status is {}", job["status"]),
        other => format!("{other:?}"),
    })
}

fn run(ground: &Ground, job: &str) -> Result<Vec<Value>> {
    let workers = ground.await_pods(job, "worker", 2)?;
    ground.set(&workers, PodState::Ready)?;
    let launcher = ground.await_pods(job, "launcher", 1)?;
    ground.set(&launcher, PodState::Ready)?;
    await_phase(ground, job, "Running")?;
    Ok(launcher)
}

fn pause(ground: &Ground, job: &str, paused: bool) -> Result<()> {
    let patch = json!({"spec": {"runMode": {"pause": {"enabled": paused}}}});
    ground.api.merge(&path(ground, job), &patch).map(drop)
}

#[test]
fn a_t9k_job_runs_and_its_launcher_outlives_its_workers() -> Result<()> {
    let ground = ground("t9k")?;
    let operator = ground.operator()?;
    ground.api.create(&path(&ground, ""), &job("walk"))?;
    ground.await_pods("walk", "worker", 2)?;
    ensure!(
        ground.get("pods", "walk-launcher")?.is_none(),
        "it did not wait"
    );
    let launcher = run(&ground, "walk")?;
    ensure!(name(&launcher[0]) == "walk-launcher");
    let command = &launcher[0]["spec"]["containers"][0]["command"];
    ensure!(
        *command == json!(["mpirun", "-N", "3", "./random_walk"]),
        "{command}"
    );
    let hosts = ground.await_object("configmaps", "walk-config")?;
    let hosts = hosts["data"]["hostfile"].as_str().unwrap_or_default();
    ensure!(
        hosts.contains("walk-worker-1.walk.") && hosts.contains("slots=3"),
        "{hosts}"
    );

    ground.set(&launcher, PodState::Succeeded)?;
    await_phase(&ground, "walk", "Succeeded")?;
    ground.await_pods("walk", "worker", 0)?;
    wait_for("the deleted workers to be counted", SOON, || {
        let job = ground.api.get(&path(&ground, "walk"))?.context("gone")?;
        Ok((job["status"]["aggregate"]["deleted"] == 2).then_some(()))
    })?;
    let job = ground.api.get(&path(&ground, "walk"))?.context("gone")?;
    let tasks = &job["status"]["tasks"];
    ensure!(tasks[0]["status"][0]["phase"] == "Succeeded", "{tasks}");
    ensure!(tasks[1]["status"][1]["phase"] == "Deleted", "{tasks}");
    ensure!(ground.get("pods", "walk-launcher")?.is_some());
    operator.assert_alive()
}

#[test]
fn a_t9k_job_is_paused_and_resumed_as_it_says() -> Result<()> {
    let ground = ground("t9k")?;
    let _operator = ground.operator()?;
    ground.api.create(&path(&ground, ""), &job("walk"))?;
    run(&ground, "walk")?;
    pause(&ground, "walk", true)?;
    await_phase(&ground, "walk", "Paused")?;
    ground.await_pods("walk", "worker", 0)?;
    ground.await_pods("walk", "launcher", 0)?;

    let edit = json!({"spec": {"runMode": {"pause": {"resumeSpecs": null}}}});
    let answer = ground
        .api
        .send("PATCH", &path(&ground, "walk"), Some(&edit))?;
    ensure!(
        answer.message().contains("spec.runMode.pause.resumeSpecs"),
        "{answer:?}"
    );

    pause(&ground, "walk", false)?;
    let workers = ground.await_pods("walk", "worker", 2)?;
    let command = &workers[0]["spec"]["containers"][0]["command"];
    ensure!(*command == json!(["/usr/bin/sshd"]), "{command}");
    await_phase(&ground, "walk", "Resuming")?;
    run(&ground, "walk")?;
    Ok(())
}

fn fixtures(kind: &str) -> Result<Vec<PathBuf>> {
    let folder = repository().join("e2e/fixtures/t9k_v1beta1").join(kind);
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    ensure!(!files.is_empty(), "{} is empty", folder.display());
    Ok(files)
}

fn refusal(ground: &Ground, file: &PathBuf) -> Result<Option<String>> {
    let args = ["create", "--dry-run=server", "--validate=false", "-n"];
    let args = [&args[..], &[&ground.namespace, "-f", "-"]].concat();
    let answer = ground
        .cluster
        .kubectl_with(&args, &fs::read_to_string(file)?);
    Ok(answer.err().map(|error| format!("{error:#}")))
}

#[test]
fn bad_t9k_jobs_are_refused_by_field_and_good_ones_are_not() -> Result<()> {
    let ground = ground("t9k")?;
    let files = fixtures("refused")?;
    ensure!(files.len() >= 10);
    ground.at_once(&files, |file| {
        let text = fs::read_to_string(file)?;
        let first = text.lines().next().unwrap_or_default();
        let wanted = first.strip_prefix("# names: ").context("names no field")?;
        match refusal(&ground, file)? {
            None => bail!("{} is accepted", file.display()),
            Some(said) => ensure!(said.contains(wanted.trim()), "{}: {said}", file.display()),
        }
        Ok(())
    })?;
    ground.at_once(&fixtures("accepted")?, |file| {
        match refusal(&ground, file)? {
            None => Ok(()),
            Some(said) => bail!("{} is refused: {said}", file.display()),
        }
    })?;
    say(&format!(
        "{} bad jobs of T9k refused, each by its field",
        files.len()
    ));
    Ok(())
}
