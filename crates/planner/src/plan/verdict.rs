//! Policy: how a job ended, as soon as anything that exists proves it. What was recorded stands.

use super::{deadline, workers};
use crate::observed::{LauncherEnd, Observed, Pod, PodPhase};
use crate::reason::Reason;
use crate::status::{Outcome, Verdict};
use crate::text;

/// What Kubernetes calls a Job that used up its retries.
const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
/// What the kubelet calls a pod that had to leave its node.
const EVICTED: &str = "Evicted";
/// Conditions and events hold no more than this.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The outcome, if there is one.
pub(crate) fn outcome(observed: &Observed) -> Option<Outcome> {
    observed
        .recorded
        .outcome
        .clone()
        .or_else(|| of_launcher_success(observed))
        .or_else(|| of_launcher_failure(observed))
        .or_else(|| of_eviction(observed))
        .or_else(|| of_deadline(observed))
}

/// The Job controller takes a second to conclude what the pod already proves, and a deadline that
/// ends in that second does not undo it.
fn of_launcher_success(observed: &Observed) -> Option<Outcome> {
    let job = match observed.launcher.ours()?.end.as_ref() {
        Some(LauncherEnd::Complete { at }) => Some(at.unwrap_or(observed.now)),
        Some(LauncherEnd::Failed { .. }) | None => None,
    };
    let mut pods = observed.launcher_pods.iter();
    let mut pod = || pods.find(|pod| pod.phase == PodPhase::Succeeded);
    let at = job.or_else(|| Some(pod()?.finished_at.unwrap_or(observed.now)))?;
    Some(Outcome {
        verdict: Verdict::Succeeded,
        at,
    })
}

/// Only the Job controller knows whether another try follows.
fn of_launcher_failure(observed: &Observed) -> Option<Outcome> {
    match observed.launcher.ours()?.end.as_ref()? {
        LauncherEnd::Complete { .. } => None,
        LauncherEnd::Failed { reason, message } => {
            Some(failed_now(observed, failure(observed, reason, message)))
        }
    }
}

/// An evicted worker is never replaced while its program runs, so the program cannot go on.
fn of_eviction(observed: &Observed) -> Option<Outcome> {
    if observed.job.policy.suspended {
        return None;
    }
    let evicted = workers::current(observed)
        .filter(|pod| pod.phase == PodPhase::Failed && pod.reason == EVICTED)
        .count();
    (evicted > 0).then(|| {
        let message = format!(
            "{evicted}/{} workers are evicted",
            observed.job.worker_count()
        );
        let verdict = Verdict::Failed {
            reason: "MPIJobEvicted".to_owned(),
            message,
        };
        failed_now(observed, verdict)
    })
}

/// While the launcher's Job runs, its controller watches the deadline; before that, we do.
fn of_deadline(observed: &Observed) -> Option<Outcome> {
    let at = deadline::before_launch(observed)?;
    (at <= observed.now).then(|| {
        let verdict = Verdict::Failed {
            reason: "DeadlineExceeded".to_owned(),
            message: "Job was active longer than specified deadline".to_owned(),
        };
        failed_now(observed, verdict)
    })
}

fn failed_now(observed: &Observed, verdict: Verdict) -> Outcome {
    Outcome {
        verdict,
        at: observed.now,
    }
}

/// The words that the dialects' clients know.
fn failure(observed: &Observed, reason: &str, message: &str) -> Verdict {
    let owner = &observed.job.owner;
    let (mut reason, mut message) = (reason.to_owned(), message.to_owned());
    if reason.is_empty() {
        "MPIJobFailed".clone_into(&mut reason);
    }
    if message.is_empty() {
        message = format!("MPIJob {}/{} has failed", owner.namespace, owner.name);
    }
    if let Some(pod) = last_failed_pod(observed).filter(|_| reason == BACKOFF_LIMIT_EXCEEDED) {
        reason = format!("{reason}/{}", pod.reason);
        message = truncated(format!("{message}: {}", pod.message));
    }
    Verdict::Failed { reason, message }
}

fn last_failed_pod(observed: &Observed) -> Option<&Pod> {
    let failed = observed
        .launcher_pods
        .iter()
        .filter(|pod| pod.phase == PodPhase::Failed);
    failed.max_by_key(|pod| pod.created_at)
}

/// No longer than a condition or an event may be.
pub(crate) fn truncated(message: String) -> String {
    text::truncated(&message, MESSAGE_BYTES_MAX)
}

/// The one word for a failure.
pub(crate) fn reason(observed: &Observed, reason: &str) -> Reason {
    match reason {
        "DeadlineExceeded" => Reason::DeadlineExceeded,
        "MPIJobEvicted" => Reason::Evicted,
        _ => match last_failed_pod(observed).and_then(|pod| pod.exit.as_ref()) {
            Some(exit) if exit.reason == "OOMKilled" => Reason::OutOfMemory,
            Some(exit) if exit.code == 127 => Reason::CommandNotFound,
            Some(_) | None => Reason::CommandFailed,
        },
    }
}
