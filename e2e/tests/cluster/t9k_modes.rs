//! T9k's debug and pause modes on real nodes: lines 20 to 25 and 29 of the acceptance list.

use anyhow::{Result, ensure};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE};
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use crate::t9k::{T9k, await_running, job, runs};
use crate::with_cluster;

/// A job whose workers begin with an init container that leaves a trace.
fn with_init(name: &str, words: &[&str]) -> Value {
    let mut job = job(name, words);
    let pod = &mut job["spec"]["worker"]["template"]["spec"];
    let mount = json!([{"name": "trace", "mountPath": "/trace"}]);
    pod["initContainers"] = json!([{"name": "fetch", "image": "muster.test/seeds:1",
        "command": ["touch", "/trace/fetched"], "volumeMounts": mount}]);
    pod["containers"][0]["volumeMounts"] = mount;
    pod["volumes"] = json!([{"name": "trace", "emptyDir": {}}]);
    job
}

fn has_fetched(fixture: &ClusterFixture, pod: &str) -> Result<bool> {
    Ok(fixture.exec(pod, &["ls", "/trace"])?.contains("fetched"))
}

fn no_pods(fixture: &ClusterFixture) -> Result<()> {
    wait_for("no pods", PATIENCE, || {
        let left = fixture.leftovers()?;
        Ok((!left.iter().any(|name| name.starts_with("pod/"))).then_some(()))
    })
}

/// Line 20: with the defaults of the mode.
#[test]
fn a20_debugging_starts_nothing() -> Result<()> {
    with_cluster("t9k-debug", |fixture| {
        let mut wanted = with_init("debugged", &["/home/mpiuser/pi"]);
        wanted["spec"]["runMode"] = json!({"debug": {"enabled": true}});
        let job = T9k::submit(fixture, &wanted)?;
        await_running(fixture, "debugged-launcher")?;
        await_running(fixture, "debugged-worker-1")?;
        let launcher = runs(fixture, "debugged-launcher")?;
        ensure!(launcher == "sleep inf", "the launcher runs `{launcher}`");
        let worker = runs(fixture, "debugged-worker-1")?;
        ensure!(
            worker.contains("/usr/sbin/sshd"),
            "the worker runs `{worker}`"
        );
        ensure!(
            has_fetched(fixture, "debugged-worker-1")?,
            "its init container did not run"
        );
        job.phase("Running")?;
        Ok(())
    })
}

/// Line 29, where nothing else can end the job.
#[test]
fn a29_a_worker_that_crashes_is_told_of_before_the_end() -> Result<()> {
    with_cluster("t9k-crash", |fixture| {
        let mut wanted = job("crashing", &["/home/mpiuser/pi"]);
        let crash = "until [ -e /tmp/crash ]; do sleep 0.1; done; exit 7";
        wanted["spec"]["runMode"] = json!({"debug": {"enabled": true, "replicaSpecs": [
            {"type": "worker", "command": ["sh", "-c", crash]}]}});
        let job = T9k::submit(fixture, &wanted)?;
        let status = job.phase("Running")?;
        ensure!(condition(&status, "ReplicaFailure") != Some("True"));
        fixture.exec("crashing-worker-1", &["touch", "/tmp/crash"])?;
        let status = job.until("ReplicaFailure", |job| {
            condition(job, "ReplicaFailure") == Some("True")
        })?;
        ensure!(
            condition(&status, "Completed").is_none(),
            "{}",
            status["status"]
        );
        let text = status["status"]["conditions"].to_string();
        ensure!(
            text.contains("crashing-worker-1") && text.contains("exit code 7"),
            "{text}"
        );
        ensure!(
            status["status"]["aggregate"]["failed"] == 1,
            "{}",
            status["status"]
        );
        Ok(())
    })
}

/// Line 21: one type of replica is told what to run.
#[test]
fn a21_a_debugged_replica_runs_what_it_is_told_without_init_containers() -> Result<()> {
    with_cluster("t9k-debug-said", |fixture| {
        let mut wanted = with_init("debugged", &["/home/mpiuser/pi"]);
        wanted["spec"]["ssh"]["sshAuthMountPath"] = "/keys".into();
        wanted["spec"]["runMode"] = json!({"debug": {"enabled": true, "replicaSpecs": [
            {"type": "worker", "skipInitContainer": true, "command": ["sleep", "inf"]}]}});
        T9k::submit(fixture, &wanted)?;
        await_running(fixture, "debugged-launcher")?;
        let worker = await_running(fixture, "debugged-worker-0")?;
        let init = worker["spec"]["initContainers"].to_string();
        ensure!(!init.contains("fetch"), "{init}");
        let (worker, launcher) = (
            runs(fixture, "debugged-worker-0")?,
            runs(fixture, "debugged-launcher")?,
        );
        ensure!(
            worker == "sleep inf" && launcher == "sleep inf",
            "{worker}; {launcher}"
        );
        // Line 12, where the job says where.
        let keys = fixture.exec("debugged-worker-0", &["ls", "/keys"])?;
        ensure!(keys.contains("authorized_keys"), "{keys}");
        Ok(())
    })
}

/// Lines 22 to 25, in one life.
#[test]
fn a22_to_a25_a_job_is_held_run_paused_and_resumed_as_it_says() -> Result<()> {
    with_cluster("t9k-pause", |fixture| {
        let words = "test -e /trace/fetched && sleep 600; exec /home/mpiuser/pi";
        let mut wanted = with_init("paused", &["sh", "-c", words]);
        let resume = json!([{"type": "worker", "skipInitContainer": true,
            "command": ["/usr/sbin/sshd", "-D", "-e"]}]);
        wanted["spec"]["runMode"] = json!({"pause": {"enabled": true, "resumeSpecs": resume}});
        let job = T9k::submit(fixture, &wanted)?;
        let held = job.phase("Paused")?;
        ensure!(
            condition(&held, "Paused") == Some("True"),
            "{}",
            held["status"]
        );
        no_pods(fixture)?;

        let refused = job.edit(&json!({"runMode": {"pause": {"resumeSpecs": null}}}));
        let said = format!("{:#}", refused.expect_err("resumeSpecs are immutable"));
        ensure!(said.contains("spec.runMode.pause.resumeSpecs"), "{said}");

        let pause = |paused: bool| json!({"runMode": {"pause": {"enabled": paused}}});
        job.edit(&pause(false))?;
        job.until("Resuming or what follows", |job| {
            ["Resuming", "Running", "Succeeded"]
                .iter()
                .any(|phase| job["status"]["phase"] == *phase)
        })?;
        let (over, log) = job.ended("Succeeded")?;
        ensure!(
            condition(&over, "Paused") == Some("False"),
            "{}",
            over["status"]
        );
        ensure!(log.contains("Workers: 2"), "{log}");
        let worker = runs(fixture, "paused-worker-0")?;
        ensure!(
            worker.contains("/usr/sbin/sshd") && worker.contains("-e"),
            "{worker}"
        );
        ensure!(
            !has_fetched(fixture, "paused-worker-0")?,
            "init containers were to be skipped"
        );
        Ok(())
    })
}

/// Line 23: a job that runs.
#[test]
fn a23_a_running_job_is_paused_and_starts_again() -> Result<()> {
    with_cluster("t9k-pause-run", |fixture| {
        let job = T9k::submit(fixture, &job("walk", &["sleep", "600"]))?;
        job.phase("Running")?;
        let pause = |paused: bool| json!({"runMode": {"pause": {"enabled": paused}}});
        job.edit(&pause(true))?;
        let paused = job.phase("Paused")?;
        ensure!(
            condition(&paused, "Running") == Some("False"),
            "{}",
            paused["status"]
        );
        no_pods(fixture)?;
        job.edit(&pause(false))?;
        job.phase("Resuming")?;
        job.phase("Running")?;
        Ok(())
    })
}
