//! A rank that goes wrong ends the job soon, with the right word, and with who it was: for every MPI,
//! also where the launcher itself would go on forever or say something else.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::ClusterFixture;
use e2e::cluster_fixture::agent::{self, MISBEHAVE, Verdict, misbehaved_at};
use e2e::cluster_fixture::pi::Mpi;
use e2e::condition;
use e2e::figures::say;

use crate::with_cluster;

/// From the moment at which the rank goes wrong.
const AT_MOST: Duration = Duration::from_secs(10);

/// How a rank goes wrong, and what is said about it then.
struct Case {
    way: &'static str,
    reason: &'static str,
    words: &'static [&'static str],
    /// Where mpirun was faster than those who watch its ranks, what there is instead.
    code: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        way: "exit",
        reason: "CommandFailed",
        words: &["rank 2", "-worker-2", "code 3"],
        code: "exited with 3",
    },
    Case {
        way: "kill",
        reason: "RankKilled",
        words: &["rank 2", "-worker-2", "signal 9"],
        code: "exited with 137",
    },
    Case {
        way: "segv",
        reason: "RankKilled",
        words: &["rank 2", "-worker-2", "signal 11"],
        code: "exited with 139",
    },
    Case {
        way: "abort",
        reason: "CommandFailed",
        words: &["exited with 5"],
        code: "exited with 5",
    },
];

#[test]
fn open_mpi_4_ranks_that_go_wrong() -> Result<()> {
    go_wrong(Mpi::OpenMpi4)
}

#[test]
fn open_mpi_5_ranks_that_go_wrong() -> Result<()> {
    go_wrong(Mpi::OpenMpi5)
}

#[test]
fn mpich_ranks_that_go_wrong() -> Result<()> {
    go_wrong(Mpi::Mpich)
}

#[test]
fn intel_mpi_ranks_that_go_wrong() -> Result<()> {
    go_wrong(Mpi::Intel)
}

/// A launcher that Kubernetes starts again in its pod, as it does unless it is told not to: the pod
/// is removed when the tries are used up, and its last words are kept all the same.
#[test]
fn a_launcher_that_was_started_again_leaves_its_words_too() -> Result<()> {
    with_cluster("wrong-again", |fixture| {
        let words = ["mpirun", "-n", "2", MISBEHAVE, "1", "exit"];
        let job = fixture.submit(&agent::job(Mpi::Mpich, 2, &words))?;
        let failed = job.failed()?;
        let words = ["rank 1", "pi-worker-1", "code 3"];
        Verdict::of(&failed)?.expect(&["CommandFailed"], &words)
    })
}

fn go_wrong(mpi: Mpi) -> Result<()> {
    with_cluster(&format!("wrong-{}", mpi.name()), |fixture| {
        CASES.iter().try_for_each(|case| {
            goes_wrong(fixture, mpi, case)
                .with_context(|| format!("{} with {}", mpi.name(), case.way))
        })
    })
}

fn goes_wrong(fixture: &ClusterFixture, mpi: Mpi, case: &Case) -> Result<()> {
    let words = ["mpirun", "-n", "3", MISBEHAVE, "2", case.way];
    let job = fixture.submit(
        &agent::job(mpi, 3, &words)
            .launcher_restart_policy("Never")
            .with("/metadata/name", case.way),
    )?;
    let failed = job.failed()?;
    let seen = SystemTime::now();
    let output = job.output()?.text;
    let took = seen.duration_since(misbehaved_at(&output)?)?;
    let verdict = Verdict::of(&failed)?;
    say(&format!(
        "{} {}: failed after {:.1} s, {}: {}",
        mpi.name(),
        case.way,
        took.as_secs_f64(),
        verdict.reason,
        verdict.message
    ));
    // Hydra ends the other ranks in the same way, so that the first cannot always be told.
    let echoed = case.way == "kill" && verdict.message.contains("was ended by signal 9");
    let words = match verdict.message.contains(case.words[0]) {
        true => case.words,
        false if echoed => &["rank "],
        false => &[case.code],
    };
    verdict
        .expect(&[case.reason], words)
        .with_context(|| output.clone())?;
    ensure!(took <= AT_MOST, "it took {took:?}:\n{output}");
    ensure!(
        condition(&failed, "Succeeded") != Some("True"),
        "it failed and succeeded"
    );
    ensure!(job.tries()? == 1, "its backoff limit is 0");
    job.delete()
}
