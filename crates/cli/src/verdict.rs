//! How a job ended, as an exit code and as text. Decides which code a reason has; all facts come from
//! the job's status and its launcher's pod, and the advice from the reason.

use contract::reason::{Evidence, Fault, Reason};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::out::{BOLD, RED, painted};
use crate::view::{Ended, JobView, PodView, launcher};
use crate::{exit, state, table};

/// Stands for the reason of a job that failed without one.
const NO_REASON: &str = "Failed";

/// The exit code of a process that follows a job.
pub(crate) fn exit_code(job: JobView<'_>, pods: &[Value]) -> u8 {
    if job.phase() == "Succeeded" {
        return 0;
    }
    let own = launcher(pods).and_then(PodView::ended).map(|end| end.code);
    let of_program = own
        .and_then(|code| u8::try_from(code).ok())
        .filter(|code| *code != 0)
        .unwrap_or(exit::FAILED);
    let Some(reason) = Reason::from_text(job.word("reason")) else {
        let is_cancelled = job.word("reason") == state::CANCELLED;
        return if is_cancelled {
            exit::STOPPED
        } else {
            of_program
        };
    };
    match reason {
        Reason::CommandNotFound => exit::NOT_FOUND,
        Reason::DeadlineExceeded => exit::DEADLINE,
        Reason::RanksNotDistributed => exit::NOT_DISTRIBUTED,
        Reason::WorkerLost | Reason::Evicted | Reason::Unreachable => exit::LOST,
        Reason::Invalid
        | Reason::WorkerCannotStart
        | Reason::LauncherCannotStart
        | Reason::QuotaExceeded
        | Reason::PodSecurityDenied
        | Reason::WaitingForGang
        | Reason::NameTaken
        | Reason::NamespaceNotAllowed
        | Reason::TooLarge
        | Reason::Refused
        | Reason::NamespaceOverBudget => exit::NEVER_STARTED,
        Reason::Suspended => exit::STOPPED,
        Reason::Starting
        | Reason::Queued
        | Reason::WaitingForWorkers
        | Reason::PullingImage
        | Reason::Unschedulable
        | Reason::CommandFailed
        | Reason::OutOfMemory
        | Reason::RankKilled
        | Reason::InitializationFailed
        | Reason::LauncherLost => of_program,
    }
}

/// What is to be said of a job that succeeded, but not at its first attempt; with punctuation in front.
pub(crate) fn recovery_words(pods: &[Value]) -> String {
    let recovered = launcher(pods).and_then(PodView::recovered);
    recovered.map_or_else(String::new, |report| format!(": {}", report.message))
}

/// How a job ended, for programs.
pub(crate) fn as_json(job: JobView<'_>, pods: &[Value]) -> Value {
    let end = launcher(pods).and_then(PodView::ended);
    let reason = Reason::from_text(job.word("reason"));
    json!({
        "schema": "muster/v1",
        "name": job.name(),
        "namespace": job.namespace(),
        "verdict": job.phase(),
        "reason": job.word("reason"),
        "message": job.word("message"),
        "fault": reason.and_then(Reason::fault).map(Fault::as_str),
        "retryable": reason.map(Reason::is_retryable),
        "exitCode": exit_code(job, pods),
        "programExitCode": end.map(|end| end.code),
        "seconds": job.seconds(),
    })
}

/// What became of a job, or why it waits, in one sentence.
pub(crate) fn sentence(job: JobView<'_>, pods: &[Value], now: Timestamp) -> String {
    let name = job.name();
    let age = table::since(job.created(), now);
    match job.phase() {
        "Failed" => format!("{name} failed: {}", brief(job)),
        "Succeeded" => {
            let took = job
                .seconds()
                .map(|secs| format!(" in {}", table::run_time(secs)));
            format!(
                "{name} succeeded{}{}",
                took.unwrap_or_default(),
                recovery_words(pods)
            )
        }
        "Running" => format!(
            "{name} has been running for {}: {} workers are ready",
            table::since(job.time("startTime"), now),
            job.word("ready")
        ),
        "Suspended" => format!("{name} is suspended: it has no pods until it is resumed"),
        "" => format!("{name} was created {age} ago, and no operator has reconciled it yet"),
        _ if job.word("message").is_empty() => {
            format!(
                "{name} has been waiting for {age}: {} workers are ready",
                job.word("ready")
            )
        }
        _ => format!("{name} has been waiting for {age}: {}", brief(job)),
    }
}

/// How a job failed, for people. They find the job by the address.
pub(crate) fn failure(job: JobView<'_>, address: &str, pods: &[Value], last: &[String]) -> String {
    let name = job.name();
    let reason = match job.word("reason") {
        "" => NO_REASON,
        reason => reason,
    };
    let head = painted(&format!("error[{reason}]"), RED);
    let mut text = format!("{head}: {name} failed: {}\n", brief(job));
    let row =
        |head: &str, body: &str| format!("  {} {body}\n", painted(&format!("{head:8}"), BOLD));
    let pod = launcher(pods);
    let end = pod.and_then(PodView::ended);
    if let (Some(pod), Some(end)) = (pod, &end) {
        text += &row("where", &place(job, pod, end));
        text += &row("what", &what(end));
    }
    for (number, line) in last.iter().enumerate() {
        text += &row(if number == 0 { "last" } else { "" }, line);
    }
    let (advice, command) = advice(reason, address);
    text += &row("do", advice);
    text + &row("", &command)
}

fn brief(job: JobView<'_>) -> String {
    let message = job.word("message");
    match message.trim() {
        "" => "no reason was given".to_owned(),
        message => message.lines().next().unwrap_or("").to_owned(),
    }
}

fn place(job: JobView<'_>, pod: PodView<'_>, end: &Ended) -> String {
    let mut place = format!("launcher {}, container {}", pod.name(), end.container);
    if !pod.node().is_empty() {
        place += &format!(", node {}", pod.node());
    }
    if let Some(secs) = job.seconds() {
        place += &format!(", after {}", table::run_time(secs));
    }
    place
}

fn what(end: &Ended) -> String {
    // Higher codes are a program's own, such as ssh's 255.
    let by_code = (129..=192).contains(&end.code).then_some(end.code - 128);
    let signal = match end.signal.or(by_code) {
        Some(signal) => format!(" (signal {signal}{})", signal_name(signal)),
        None => String::new(),
    };
    let memory = if end.reason == "OOMKilled" {
        ", out of memory"
    } else {
        ""
    };
    format!("exit code {}{signal}{memory}", end.code)
}

fn signal_name(signal: i64) -> &'static str {
    match signal {
        1 => " HUP",
        2 => " INT",
        6 => " ABRT",
        7 => " BUS",
        8 => " FPE",
        9 => " KILL",
        11 => " SEGV",
        15 => " TERM",
        _ => "",
    }
}

/// What to do about a reason, and a command that prints more. A newer operator may have reasons that
/// this program does not know.
pub(crate) fn advice(reason: &str, address: &str) -> (&'static str, String) {
    let known = match reason {
        NO_REASON => Some(Reason::CommandFailed),
        reason => Reason::from_text(reason),
    };
    let Some(reason) = known else {
        return ("look at the details", format!("muster describe {address}"));
    };
    let command = match reason.evidence() {
        Evidence::LauncherLog => format!("muster logs {address} --launcher --tail 200"),
        Evidence::WorkerLog => format!("muster logs {address} --worker 0"),
        Evidence::Spec => "muster lint FILE".to_owned(),
        Evidence::Status => format!("muster describe {address}"),
    };
    (reason.advice(), command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(phase: &str, reason: &str) -> Value {
        json!({
            "metadata": {"name": "hvd"},
            "status": {"muster": {"phase": phase, "reason": reason, "finished": true, "seconds": 2.4,
                "message": "the launcher ended with code 3"}},
        })
    }

    fn pod(code: i64) -> Value {
        json!({
            "metadata": {"name": "hvd-launcher-x", "labels": {
                "training.kubeflow.org/job-name": "hvd",
                "training.kubeflow.org/job-role": "launcher"}},
            "spec": {"nodeName": "here"},
            "status": {"containerStatuses": [{"name": "main", "state": {"terminated": {
                "exitCode": code, "reason": "Error"}}}]},
        })
    }

    #[test]
    fn the_program_s_own_code_passes_unchanged_and_ours_are_apart() {
        for (phase, reason, own, code) in [
            ("Succeeded", "", 0, 0),
            ("Failed", "CommandFailed", 3, 3),
            ("Failed", "RankKilled", 137, 137),
            ("Failed", "CommandNotFound", 127, 127),
            ("Failed", "RanksNotDistributed", 118, 121),
            ("Failed", "WorkerLost", 119, 123),
            ("Failed", "DeadlineExceeded", 143, 124),
            ("Failed", "WorkerCannotStart", 1, 120),
            ("Failed", state::CANCELLED, 0, 122),
        ] {
            assert_eq!(
                exit_code(JobView(&job(phase, reason)), &[pod(own)]),
                code,
                "{reason}"
            );
        }
        assert_eq!(exit_code(JobView(&job("Failed", "CommandFailed")), &[]), 1);
    }

    #[test]
    fn programs_learn_whose_fault_it_was_and_whether_to_submit_again() {
        for (reason, fault, retryable) in [
            ("CommandFailed", json!("User"), json!(false)),
            ("WorkerLost", json!("Cluster"), json!(true)),
            ("", Value::Null, Value::Null),
        ] {
            let printed = as_json(JobView(&job("Failed", reason)), &[]);
            assert_eq!(
                (&printed["fault"], &printed["retryable"]),
                (&fault, &retryable)
            );
        }
    }

    #[test]
    fn the_box_says_where_what_last_and_what_to_do() {
        let (job, pods) = (job("Failed", "CommandFailed"), [pod(139)]);
        assert_eq!(
            failure(JobView(&job), "hvd -n lab", &pods, &["boom".to_owned()]),
            "\
error[CommandFailed]: hvd failed: the launcher ended with code 3
  where    launcher hvd-launcher-x, container main, node here, after 2.4s
  what     exit code 139 (signal 11 SEGV)
  last     boom
  do       read what the program said; the exit code is its own
           muster logs hvd -n lab --launcher --tail 200
"
        );
    }
}
