//! Policy: how a job ended, as soon as anything that exists proves it. What was recorded stands.

use super::{deadline, launcher, stuck, testimony, workers};
use crate::observed::{LauncherEnd, Observed, Pod, PodPhase};
use crate::reason::Reason;
use crate::status::{Outcome, Verdict};
use crate::text;

/// What Kubernetes calls a Job that used up its retries.
const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
/// Failures that we name ourselves, in every dialect.
const OURS: [Reason; 8] = [
    Reason::DeadlineExceeded,
    Reason::WorkerCannotStart,
    Reason::LauncherCannotStart,
    Reason::WorkerLost,
    Reason::Unreachable,
    Reason::RanksNotDistributed,
    Reason::RankKilled,
    Reason::CommandFailed,
];
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
        .or_else(|| of_undistributed_ranks(observed))
        .or_else(|| of_launcher_failure(observed))
        .or_else(|| of_eviction(observed))
        .or_else(|| of_stuck_pod(observed))
        .or_else(|| of_ended_worker(observed))
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

/// The launcher's own code was 0, so the Job controller would try again, and again for nothing.
fn of_undistributed_ranks(observed: &Observed) -> Option<Outcome> {
    let said = testimony::of_undistributed(observed)?;
    Some(failed(observed, Reason::RanksNotDistributed, said.message))
}

/// A pod that can never start.
fn of_stuck_pod(observed: &Observed) -> Option<Outcome> {
    let stuck = stuck::worst(observed).filter(|stuck| stuck.until() <= observed.now)?;
    let (reason, role) = if stuck.worker {
        (Reason::WorkerCannotStart, "worker")
    } else {
        (Reason::LauncherCannotStart, "launcher")
    };
    let why = format!("{}: {}", stuck.waiting.reason, stuck.waiting.message);
    let why = why.trim_end_matches([':', ' ']);
    let message = format!("{role} {} cannot start: {why}", stuck.pod.name);
    Some(failed(observed, reason, message))
}

/// A worker that ended is not started again, and the gate would wait for it for ever.
fn of_ended_worker(observed: &Observed) -> Option<Outcome> {
    let job = &observed.job;
    let waits = |pod: &Pod| pod.phase == PodPhase::Pending && !pod.deleting;
    let gated = job.gate(&observed.site).is_some()
        && !job.policy.suspended
        && launcher::running_pods(observed) == 0
        && observed.launcher_pods.iter().any(waits);
    let ended = workers::current(observed).find(|pod| gated && pod.phase.is_over())?;
    let how = match &ended.exit {
        Some(exit) => format!("container {} exited with {}", exit.container, exit.code),
        None if ended.phase == PodPhase::Succeeded => "its containers exited with 0".to_owned(),
        None => format!("{} {}", ended.reason, ended.message),
    };
    let message = format!(
        "worker {} ended before the launcher's program could use it: {}",
        ended.name,
        how.trim()
    );
    Some(failed(observed, Reason::WorkerLost, message))
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

fn failed(observed: &Observed, reason: Reason, message: String) -> Outcome {
    let verdict = Verdict::Failed {
        reason: reason.as_str().to_owned(),
        message: truncated(message),
    };
    failed_now(observed, verdict)
}

/// While the launcher's Job runs, its controller watches the deadline; before that, we do.
fn of_deadline(observed: &Observed) -> Option<Outcome> {
    if let Some(at) = deadline::of_startup(observed).filter(|at| *at <= observed.now) {
        let (ready, wanted) = (workers::ready(observed), observed.job.worker_count());
        let secs = at.duration_since(observed.recorded.started_at.unwrap_or(at));
        let message = format!(
            "the program did not start within {} s (startupTimeoutSeconds): {ready} of {wanted} \
             workers are Ready",
            secs.as_secs()
        );
        return Some(failed(observed, Reason::DeadlineExceeded, message));
    }
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
        match testimony::of_pod(pod) {
            Some(said) => {
                let known = said.reason().unwrap_or(Reason::CommandFailed);
                known.as_str().clone_into(&mut reason);
                message = truncated(format!("{}: {message}", said.message));
            }
            None => {
                reason = format!("{reason}/{}", pod.reason);
                message = truncated(format!("{message}: {}", pod.message));
            }
        }
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
    let ours = OURS.into_iter().find(|ours| ours.as_str() == reason);
    match (ours, reason) {
        (Some(ours), _) => ours,
        (None, "MPIJobEvicted") => Reason::Evicted,
        (None, _) => match last_failed_pod(observed).and_then(|pod| pod.exit.as_ref()) {
            Some(exit) if exit.reason == "OOMKilled" => Reason::OutOfMemory,
            Some(exit) if exit.code == 127 => Reason::CommandNotFound,
            Some(_) | None => Reason::CommandFailed,
        },
    }
}
