//! Jobs that start without ssh: the images have none, muster's agent starts the ranks. One manifest
//! for every MPI, in which only the image differs. Decides how that job is written and how its end
//! is read; must not know any cluster.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::pi::Mpi;
use crate::jobs::MpiJob;

/// The program in which one rank goes wrong, see `e2e/images/misbehave.c`.
pub const MISBEHAVE: &str = "/home/mpiuser/misbehave";
/// What it waits between saying that all ranks met and going wrong.
pub const MISBEHAVE_PAUSE: Duration = Duration::from_secs(1);

/// An image without ssh.
pub fn image(mpi: Mpi) -> String {
    format!("muster.test/{}-nossh:1", mpi.name())
}

/// A job whose launcher runs these words.
pub fn job(mpi: Mpi, workers: u32, launcher: &[&str]) -> MpiJob {
    MpiJob::named("pi")
        .workers(workers)
        .image(&image(mpi))
        .launcher_command(launcher)
        .clean_pod_policy("Running")
        .backoff_limit(0)
        .with("/spec/muster/transport", "Agent")
}

/// The same, whose ranks meet and then wait for so many seconds.
pub fn waiting_job(mpi: Mpi, workers: u32, secs: u32) -> MpiJob {
    let (ranks, secs) = (workers.to_string(), secs.to_string());
    job(
        mpi,
        workers,
        &["mpirun", "-n", &ranks, MISBEHAVE, &secs, "wait"],
    )
}

/// What muster says of a job that has ended.
#[derive(Debug)]
pub struct Verdict {
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl Verdict {
    /// Of the job, as it is in the API.
    pub fn of(job: &Value) -> Result<Self> {
        let muster = &job["status"]["muster"];
        ensure!(muster["finished"] == true, "it has not ended: {muster}");
        let text = |key: &str| muster[key].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            reason: text("reason"),
            message: text("message"),
        })
    }

    /// Fails unless the reason is one of these and the message has all of these words.
    pub fn expect(&self, reasons: &[&str], words: &[&str]) -> Result<()> {
        let Self { reason, message } = self;
        ensure!(
            reasons.contains(&reason.as_str()),
            "the reason is {reason}, not {reasons:?}: {message}"
        );
        for word in words {
            ensure!(message.contains(word), "no `{word}` in `{message}`");
        }
        Ok(())
    }
}

/// When [`MISBEHAVE`] went wrong, from what it said.
pub fn misbehaved_at(output: &str) -> Result<SystemTime> {
    let met = output
        .lines()
        .find_map(|line| line.split_once("ranks met at "));
    let (_, secs) = met.with_context(|| format!("its ranks never met:\n{output}"))?;
    let secs: f64 = secs.trim().parse().context("a time that is no number")?;
    Ok(UNIX_EPOCH + Duration::from_secs_f64(secs) + MISBEHAVE_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_is_read_from_what_was_said() {
        let said = "noise\nall 3 ranks met at 100.250\n";
        let at = misbehaved_at(said).expect("it is there");
        assert_eq!(at, UNIX_EPOCH + Duration::from_millis(101_250));
        misbehaved_at("noise").expect_err("nobody met");
    }

    #[test]
    fn a_verdict_is_expected_in_full() {
        let job = |finished: bool| {
            json!({"status": {"muster": {
                "finished": finished, "reason": "WorkerLost", "message": "pi-worker-1 was lost"}}})
        };
        Verdict::of(&job(false)).expect_err("it runs");
        let verdict = Verdict::of(&job(true)).expect("it has ended");
        verdict
            .expect(&["RankKilled", "WorkerLost"], &["pi-worker-1"])
            .expect("that is what it says");
        verdict
            .expect(&["RankKilled"], &[])
            .expect_err("another reason");
        verdict
            .expect(&["WorkerLost"], &["pi-worker-2"])
            .expect_err("another worker");
    }
}
