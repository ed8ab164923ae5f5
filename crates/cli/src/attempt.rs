//! The attempt of a job with `spec.muster.recovery` that runs now. The job's status does not know it: the launcher's
//! agent starts the program again without asking anybody, and says so in the launcher's log. Decides what is told of
//! it; must not know how logs are fetched.

use anyhow::Result;
use contract::agent_report;
use futures::AsyncBufReadExt as _;
use jiff::Timestamp;
use kube::api::LogParams;
use serde_json::Value;

use crate::backend::Backend;
use crate::table;
use crate::view::{JobView, launcher};

/// "attempt 2 of at most 4, for 12s: RankKilled: rank 3 on …"; none if it is the first, if there can be only one, or
/// if the kubelet has removed that part of the log.
pub(crate) async fn running(backend: &Backend, job: JobView<'_>, pods: &[Value]) -> Option<String> {
    let recovers = job.0["spec"]["muster"]["recovery"].is_object() && job.phase() == "Running";
    let pod = launcher(pods).filter(|pod| recovers && pod.phase() == "Running")?;
    let params = LogParams {
        container: Some(pod.main_container().to_owned()),
        timestamps: true,
        ..LogParams::default()
    };
    // A log that cannot be read must not keep anybody from reading the rest.
    let last = last_begun(backend.log(pod, &params).await.ok()?)
        .await
        .ok()??;
    words(&last, Timestamp::now())
}

/// The last line with which an attempt begins. A kubelet keeps some megabytes of a log.
async fn last_begun(mut log: crate::backend::LogReader) -> Result<Option<String>> {
    let (mut last, mut line) = (None, Vec::new());
    while log.read_until(b'\n', &mut line).await? > 0 {
        let text = String::from_utf8_lossy(&line);
        if begins(&text).is_some() {
            last = Some(text.trim_end().to_owned());
        }
        line.clear();
    }
    Ok(last)
}

/// When an attempt began, and the line that says so.
fn begins(line: &str) -> Option<(&str, &str)> {
    let (time, line) = line.split_once(' ')?;
    agent_report::begun_attempt(line)?;
    Some((time, line))
}

fn words(line: &str, now: Timestamp) -> Option<String> {
    let (time, line) = begins(line)?;
    let (_, attempt) = line.split_once(": ")?;
    let (number, why) = attempt.split_once(": ")?;
    Some(format!("{number}, for {}: {why}", table::since(time, now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_line_says_which_attempt_it_is_and_why() {
        let line = agent_report::attempt_line(2, 4) + "RankKilled: rank 3 on worker w-1 was ended";
        let now = "2026-11-15T12:00:12Z".parse().expect("a time");
        let told = words(&format!("2026-11-15T12:00:00Z {line}"), now);
        let expected =
            "attempt 2 of at most 4, for 12s: RankKilled: rank 3 on worker w-1 was ended";
        assert_eq!(told.as_deref(), Some(expected));
        assert_eq!(
            words("2026-11-15T12:00:00Z attempt 2 of at most 4", now),
            None
        );
    }
}
