//! Every file of `examples/` runs as it is, and does what its comments say.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::repository;
use e2e::condition;
use serde_json::Value;

use crate::with_cluster;

const TRIED: [&str; 9] = [
    "launcher-as-worker",
    "pi",
    "pi-intel",
    "pi-mpich",
    "pi-openmpi5",
    "pi-root",
    "pi-without-ssh",
    "suspended",
    "wait-for-workers",
];

#[test]
fn no_example_is_untried() -> Result<()> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(repository().join("examples"))? {
        let path = entry?.path();
        // What is written for local mode runs there.
        if path.is_dir() {
            continue;
        }
        let name = path.file_stem().context("a file without a name")?;
        found.insert(name.to_string_lossy().into_owned());
    }
    assert_eq!(found, TRIED.map(str::to_owned).into());
    Ok(())
}

#[test]
fn pi() -> Result<()> {
    with_cluster("example-pi", |fixture| {
        let job = fixture.submit_example("pi")?;
        job.succeeded_on_workers(2)?;
        ensure!(
            condition(&job.get()?, "Running") == Some("False"),
            "it no longer runs"
        );
        // Workers that still run are removed, the launcher and its log stay for a minute.
        e2e::wait_for("workers to go", e2e::cluster_fixture::PATIENCE, || {
            Ok(fixture.pods("pi", "worker")?.is_empty().then_some(()))
        })?;
        ensure!(
            fixture.pods("pi", "launcher")?.len() == 1,
            "the launcher stays"
        );
        Ok(())
    })
}

#[test]
fn pi_without_ssh() -> Result<()> {
    with_cluster("example-without-ssh", |fixture| {
        fixture
            .submit_example("pi-without-ssh")?
            .succeeded_on_workers(2)?;
        Ok(())
    })
}

#[test]
fn pi_root() -> Result<()> {
    with_cluster("example-root", |fixture| {
        fixture.submit_example("pi-root")?.succeeded_on_workers(2)?;
        Ok(())
    })
}

#[test]
fn pi_openmpi5() -> Result<()> {
    with_cluster("example-openmpi5", |fixture| {
        fixture
            .submit_example("pi-openmpi5")?
            .succeeded_on_workers(2)?;
        Ok(())
    })
}

#[test]
fn pi_mpich() -> Result<()> {
    with_cluster("example-mpich", |fixture| {
        fixture
            .submit_example("pi-mpich")?
            .succeeded_on_workers(2)?;
        Ok(())
    })
}

#[test]
fn pi_intel() -> Result<()> {
    with_cluster("example-intel", |fixture| {
        fixture
            .submit_example("pi-intel")?
            .succeeded_on_workers(2)?;
        Ok(())
    })
}

#[test]
fn launcher_as_worker() -> Result<()> {
    with_cluster("example-law", |fixture| {
        let job = fixture.submit_example("launcher-as-worker")?;
        job.succeeded_on(3, &[&job.launcher(), &job.worker(0), &job.worker(1)])?;
        Ok(())
    })
}

#[test]
fn wait_for_workers() -> Result<()> {
    with_cluster("example-wait", |fixture| {
        let job = fixture.submit_example("wait-for-workers")?;
        let workers = job.pods_until("two ready workers", "worker", |pods| {
            pods.len() == 2
                && pods
                    .iter()
                    .all(|pod| condition(pod, "Ready") == Some("True"))
        })?;
        job.succeeded_on_workers(2)?;
        let launcher = fixture
            .cluster
            .get(&fixture.namespace, "job", &job.launcher())?;
        let launcher = launcher.context("the launcher Job is gone")?;
        // Both in whole seconds of the same clock, written so that they sort.
        let created = launcher["metadata"]["creationTimestamp"].as_str();
        for worker in &workers {
            let ready = ready_since(worker);
            ensure!(
                ready <= created,
                "launcher {created:?} before its worker {ready:?}"
            );
        }
        Ok(())
    })
}

fn ready_since(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")?;
    ready["lastTransitionTime"].as_str()
}

#[test]
fn suspended() -> Result<()> {
    with_cluster("example-suspended", |fixture| {
        let job = fixture.submit_example("suspended")?;
        job.until("condition Suspended", |job| {
            condition(job, "Suspended") == Some("True")
        })?;
        ensure!(
            fixture.pods("suspended", "worker")?.is_empty(),
            "a suspended job has no workers"
        );
        ensure!(
            fixture.pods("suspended", "launcher")?.is_empty(),
            "a suspended job has no launcher"
        );
        fixture.suspend("suspended", false)?;
        job.succeeded_on_workers(2)?;
        Ok(())
    })
}
