//! Suspending and resuming: a suspended job has no pods, whenever that happens, and runs from its
//! beginning when it is resumed.

use anyhow::{Result, ensure};
use e2e::cluster_fixture::pi::{Mpi, User, held_pi, pi};
use e2e::condition;

use crate::with_cluster;

#[test]
fn a_job_created_suspended_runs_once_it_is_resumed() -> Result<()> {
    with_cluster("born-suspended", |fixture| {
        let job = fixture.submit(&pi(Mpi::OpenMpi4, User::Root, 2).suspended())?;
        ensure!(
            fixture.pods("pi", "worker")?.is_empty(),
            "no pod right after it was created"
        );
        let held = job.until("condition Suspended", |job| {
            condition(job, "Suspended") == Some("True")
        })?;
        ensure!(held["status"]["startTime"].is_null(), "it has not started");
        ensure!(
            fixture.pods("pi", "worker")?.is_empty(),
            "no worker while it is suspended"
        );
        ensure!(
            fixture.pods("pi", "launcher")?.is_empty(),
            "no launcher while it is suspended"
        );
        fixture.suspend("pi", false)?;
        job.succeeded_on_workers(2)?;
        let done = job.get()?;
        ensure!(
            condition(&done, "Suspended") == Some("False"),
            "it was resumed"
        );
        ensure!(done["status"]["startTime"].is_string(), "it has started");
        Ok(())
    })
}

#[test]
fn c15_a_job_without_retries_survives_its_suspension() -> Result<()> {
    with_cluster("suspend-no-retries", |fixture| {
        let job = held_pi(Mpi::OpenMpi4, User::Mpiuser, 2).backoff_limit(0);
        let job = fixture.submit(&job.launcher_restart_policy("Never"))?;
        job.running()?;
        fixture.suspend("pi", true)?;
        job.has_no_pods()?;
        let held = job.until("condition Suspended", |job| {
            condition(job, "Suspended") == Some("True")
        })?;
        ensure!(condition(&held, "Failed").is_none(), "{}", held["status"]);
        fixture.suspend("pi", false)?;
        job.running()?;
        job.release()?;
        job.succeeded_on_workers(2)?;
        Ok(())
    })
}

#[test]
fn a_running_job_is_stopped_and_runs_again() -> Result<()> {
    with_cluster("suspend-running", |fixture| {
        let job = fixture.submit(&held_pi(Mpi::OpenMpi4, User::Mpiuser, 2))?;
        job.running()?;
        fixture.suspend("pi", true)?;
        job.has_no_pods()?;
        // Queues take the job's resources back when nothing of it is active.
        job.until("no active pod in the status", |job| {
            let counts = &job["status"]["replicaStatuses"];
            let idle = |role| counts[role]["active"].as_i64().unwrap_or(0) == 0;
            condition(job, "Suspended") == Some("True")
                && condition(job, "Running") == Some("False")
                && idle("Launcher")
                && idle("Worker")
        })?;
        fixture.suspend("pi", false)?;
        job.running()?;
        job.release()?;
        job.succeeded_on_workers(2)?;
        Ok(())
    })
}
