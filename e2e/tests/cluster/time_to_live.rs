//! `ttlSecondsAfterFinished: 0`: the launcher goes as soon as it has ended, and its program runs
//! exactly once all the same.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::audit::Request;
use e2e::cluster_fixture::pi::{Mpi, User, pi};
use e2e::{condition, wait_for};
use serde_json::json;

use crate::with_cluster;

const JOB_CONTROLLER: &str = "system:serviceaccount:kube-system:job-controller";

#[test]
fn a_job_that_keeps_nothing_runs_once() -> Result<()> {
    with_cluster("ttl-0", |fixture| {
        let job = fixture.submit(&pi(Mpi::OpenMpi4, User::Mpiuser, 2).ttl_secs(0))?;
        job.succeeded()?;
        wait_for("the launcher Job to go", Duration::from_secs(60), || {
            let launcher = fixture
                .cluster
                .get(&fixture.namespace, "job", &job.launcher())?;
            Ok(launcher.is_none().then_some(()))
        })?;
        // Makes the operator look at a finished job that has no launcher.
        fixture.patch(
            e2e::cluster_fixture::MPIJOBS,
            "pi",
            &json!({"metadata": {"labels": {"look": "again"}}}),
        )?;
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            let launcher = fixture
                .cluster
                .get(&fixture.namespace, "job", &job.launcher())?;
            ensure!(launcher.is_none(), "a finished job got a second launcher");
        }
        ensure!(
            condition(&job.get()?, "Succeeded") == Some("True"),
            "the verdict stands"
        );
        // What has come and gone in between is in the log of the API server.
        let writes = fixture.writes_of(JOB_CONTROLLER)?;
        let is_start = |write: &&Request| write.verb == "create" && write.resource == "pods";
        let started = writes.iter().filter(is_start).count();
        ensure!(started == 1, "{started} launchers were started: {writes:?}");
        Ok(())
    })
}
