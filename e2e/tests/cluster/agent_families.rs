//! One manifest, in which only the image differs, starts the ranks of every MPI without ssh: on all
//! workers, under their names, with the variables that were set on workers and launcher.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::cluster_fixture::agent;
use e2e::cluster_fixture::pi::{Mpi, PI};
use e2e::jobs::MpiJob;
use serde_json::json;

use crate::with_cluster;

/// Open MPI passes a launcher's variable only when it is asked to, or when its name is its own.
const SCRIPT: &str = r#"set -e
mpirun -n 3 "$0"
mpirun -n 3 hostname | sed 's/^/name: /'
show='echo "seen: $(hostname) worker=$ONLY_WORKER launcher=$ONLY_LAUNCHER own=$OMPI_LAUNCHER both=$BOTH"'
mpirun -n 3 sh -c "$show"
if mpirun --version | grep -q 'Open MPI'; then
    mpirun -n 3 -x ONLY_LAUNCHER sh -c "$show" | sed 's/^seen/asked/'
fi"#;

#[test]
fn open_mpi_4_runs_without_ssh() -> Result<()> {
    runs_without_ssh(Mpi::OpenMpi4)
}

#[test]
fn open_mpi_5_runs_without_ssh() -> Result<()> {
    runs_without_ssh(Mpi::OpenMpi5)
}

#[test]
fn mpich_runs_without_ssh() -> Result<()> {
    runs_without_ssh(Mpi::Mpich)
}

#[test]
fn intel_mpi_runs_without_ssh() -> Result<()> {
    runs_without_ssh(Mpi::Intel)
}

fn runs_without_ssh(mpi: Mpi) -> Result<()> {
    with_cluster(&format!("nossh-{}", mpi.name()), |fixture| {
        let job = fixture.submit(&manifest(mpi))?;
        let output = job.succeeded_on_workers(3)?;
        let text = &output.text;
        let workers: BTreeSet<_> = (0..3).map(|index| job.worker(index)).collect();
        let lines = |prefix: &str| -> BTreeSet<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(lines("name: "), workers, "{text}");
        let seen = |launcher: &str, both: &str| -> BTreeSet<String> {
            let values = format!("worker=w launcher={launcher} own=o both={both}");
            let lines = workers.iter().map(|worker| format!("{worker} {values}"));
            lines.collect()
        };
        // Hydra lays the launcher's environment over the worker's.
        let expected = if mpi.is_hydra() {
            seen("l", "l")
        } else {
            seen("", "w")
        };
        assert_eq!(lines("seen: "), expected, "{text}");
        if !mpi.is_hydra() {
            assert_eq!(lines("asked: "), seen("l", "w"), "{text}");
        }
        ensure!(job.tries()? == 1, "the first try was not enough");
        Ok(())
    })
}

fn manifest(mpi: Mpi) -> MpiJob {
    let variables =
        |role: &str| format!("/spec/mpiReplicaSpecs/{role}/template/spec/containers/0/env");
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    agent::job(mpi, 3, &["sh", "-c", SCRIPT, PI])
        .with(
            &variables("Launcher"),
            json!([
                variable("ONLY_LAUNCHER", "l"),
                variable("OMPI_LAUNCHER", "o"),
                variable("BOTH", "l"),
            ]),
        )
        .with(
            &variables("Worker"),
            json!([variable("ONLY_WORKER", "w"), variable("BOTH", "w")]),
        )
}
