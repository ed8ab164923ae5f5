//! Policy: how a job ended, as soon as anything that exists proves it. What was recorded stands.

use contract::reason::{Reason, Stage};

use super::{agent_report, deadline, launcher, pods, retry, startup, stuck};
use crate::job::{LauncherKind, Owner};
use crate::observed::{LauncherEnd, Observed, Pod, PodPhase};
use crate::recorded::{Outcome, Verdict};
use crate::text;

/// What Kubernetes calls a Job that used up its retries.
const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
/// What the kubelet calls a pod that had to leave its node.
const EVICTED: &str = "Evicted";
/// Conditions and events hold no more than this.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The outcome, if there is one.
pub(super) fn outcome(observed: &Observed) -> Option<Outcome> {
    if observed.job.outlives_launcher() {
        // Whatever else happens may pass, or be put right by an edit.
        return of_launcher_success(observed)
            .or_else(|| of_launcher_failure(observed))
            .or_else(|| of_launcher_pod(observed));
    }
    observed
        .recorded
        .outcome
        .clone()
        .or_else(|| of_launcher_success(observed))
        .or_else(|| of_undistributed_ranks(observed))
        .or_else(|| of_launcher_failure(observed))
        .or_else(|| of_launcher_pod(observed))
        .or_else(|| of_deleted_launcher(observed))
        .or_else(|| of_restarts(observed))
        .or_else(|| of_failed_worker(observed))
        .or_else(|| of_eviction(observed))
        .or_else(|| of_stuck_pod(observed))
        .or_else(|| of_ended_worker(observed))
        .or_else(|| of_deadline(observed))
}

/// The Job controller takes a second to conclude what the pod already proves. A deadline that ends in
/// that second does not undo it, nor does somebody who deletes the Job.
fn of_launcher_success(observed: &Observed) -> Option<Outcome> {
    let job = match end_of_job(observed) {
        Some(LauncherEnd::Complete { at }) => Some(at.unwrap_or(observed.now)),
        Some(LauncherEnd::Failed { .. }) | None => None,
    };
    let mut pods = observed.launcher_pods.iter();
    let mut pod = || pods.find(|pod| has_succeeded(pod));
    let at = job.or_else(|| Some(pod()?.finished_at.unwrap_or(observed.now)))?;
    Some(Outcome {
        verdict: Verdict::Succeeded,
        at,
    })
}

/// The program got to its end. A container that was told to end may exit with 0 too.
fn has_succeeded(pod: &Pod) -> bool {
    pod.phase == PodPhase::Succeeded && !pod.stopped
}

/// What the agent says of a run that succeeded, but not at its first attempt.
pub(super) fn recovery_words(observed: &Observed) -> Option<String> {
    let mut pods = observed.launcher_pods.iter();
    let pod = pods.find(|pod| has_succeeded(pod))?;
    pod.recovered.clone().map(truncated)
}

/// How the launcher's Job ended by itself. The Job controller counts the pods that it stops for a
/// suspension as if they had ended by themselves, so a suspended Job may be Complete or Failed.
fn end_of_job(observed: &Observed) -> Option<&LauncherEnd> {
    let launcher = observed.launcher.ours().filter(|launcher| !launcher.held);
    launcher?.end.as_ref()
}

/// Only the Job controller knows whether another try follows.
fn of_launcher_failure(observed: &Observed) -> Option<Outcome> {
    match end_of_job(observed)? {
        LauncherEnd::Complete { .. } => None,
        LauncherEnd::Failed { reason, message } => {
            Some(failed_now(observed, failure(observed, reason, message)))
        }
    }
}

/// The launcher's own code was 0, so the Job controller would try again, and again for nothing.
fn of_undistributed_ranks(observed: &Observed) -> Option<Outcome> {
    let said = agent_report::of_undistributed(observed)?;
    Some(failed(observed, Reason::RanksNotDistributed, said.message))
}

/// A launcher that is a pod has one try, unless it will be replaced. One that somebody deletes may fail
/// while it is deleted, which is no failure of the program.
fn of_launcher_pod(observed: &Observed) -> Option<Outcome> {
    let job = &observed.job;
    if !job.launcher.kind.is_pod() || job.lifecycle.suspended || pods::are_taken(observed) {
        return None;
    }
    let has_failed = |pod: &&Pod| pod.phase == PodPhase::Failed && !pod.deleting;
    let mut pods = observed.launcher_pods.iter().filter(has_failed);
    let pod = pods.find(|pod| !retry::is_replaced(observed, pod))?;
    if let Some(message) = startup::failure(observed, pod) {
        return Some(failed(observed, Reason::InitializationFailed, message));
    }
    Some(of_failed_pod(
        observed,
        pod,
        "launcher",
        Reason::CommandFailed,
    ))
}

/// A launcher that was deleted before it ended, where that ends the job.
fn of_deleted_launcher(observed: &Observed) -> Option<Outcome> {
    let job = &observed.job;
    let is_lost = match job.launcher.kind {
        LauncherKind::Pod { .. } => {
            let mut pods = observed.launcher_pods.iter();
            pods.any(|pod| pod.deleting && !has_succeeded(pod))
        }
        LauncherKind::Job { .. } => {
            let launcher = observed.launcher.ours();
            launcher.is_some_and(|launcher| launcher.deleting)
        }
    };
    // A pod without our label is out of sight, and may still run.
    let is_hidden = observed.foreign_pods.contains(&job.names.launcher);
    let is_gone = observed.recorded.ran && !pods::launcher_exists(observed) && !is_hidden;
    let is_fatal = job.limits().deleted_launcher_is_fatal && !job.lifecycle.suspended;
    (is_fatal && (is_lost || is_gone)).then(|| {
        let message = format!("{} was deleted while its program ran", job.names.launcher);
        failed(observed, Reason::LauncherLost, message)
    })
}

/// A worker that failed, where that ends the job.
fn of_failed_worker(observed: &Observed) -> Option<Outcome> {
    if !observed.job.limits().failed_worker_is_fatal || observed.job.lifecycle.suspended {
        return None;
    }
    let mut failed = pods::workers(observed).filter(|pod| pod.phase == PodPhase::Failed);
    let pod = failed.find(|pod| !retry::is_replaced(observed, pod))?;
    Some(of_failed_pod(observed, pod, "worker", Reason::WorkerLost))
}

/// How a failed pod ended; `otherwise` where nothing about the pod gives a reason.
fn of_failed_pod(observed: &Observed, pod: &Pod, role: &str, otherwise: Reason) -> Outcome {
    let said = agent_report::of_pod(pod);
    let reason = match &said {
        Some(said) => said.reason(),
        None if pod.reason == EVICTED => of_exit(pod).or(Some(Reason::Evicted)),
        None => of_exit(pod),
    };
    let how = match (said, &pod.exit) {
        (Some(said), _) => said.message,
        (None, Some(exit)) => {
            let words = format!("({}): {}", exit.reason, exit.message);
            let words = words.trim_start_matches("()").trim_end_matches([':', ' ']);
            format!(
                "container {} exited with {} {words}",
                exit.container, exit.code
            )
        }
        (None, None) => format!("{}: {}", pod.reason, pod.message),
    };
    let how = how.trim_matches([':', ' ']);
    let place = pods::place(pod);
    let message = format!("{role} {}{place} failed: {how}", pod.name);
    failed(observed, reason.unwrap_or(otherwise), message)
}

/// Containers were restarted, or pods replaced, as often as they may be.
fn of_restarts(observed: &Observed) -> Option<Outcome> {
    if observed.job.lifecycle.suspended || !retry::is_used_up(observed) {
        return None;
    }
    let name = &observed.job.owner.name;
    let because = match retry::unretried(observed) {
        Some(pod) => format!(": {} failed again", pod.name),
        None => String::new(),
    };
    let verdict = Verdict::Failed {
        reason: BACKOFF_LIMIT_EXCEEDED.to_owned(),
        message: format!(
            "Job {name} has failed because it has reached the specified backoff limit{because}"
        ),
    };
    Some(failed_now(observed, verdict))
}

/// A pod that can never start.
fn of_stuck_pod(observed: &Observed) -> Option<Outcome> {
    let stuck = stuck::worst(observed).filter(|stuck| stuck.until() <= observed.now)?;
    let (reason, role) = if stuck.worker {
        (Reason::WorkerCannotStart, "worker")
    } else {
        (Reason::LauncherCannotStart, "launcher")
    };
    let why = stuck.waiting.words(": ");
    let message = format!("{role} {} cannot start: {why}", stuck.pod.name);
    Some(failed(observed, reason, message))
}

/// A worker that ended is not started again, and the gate would wait for it forever; so would a launcher
/// that is not started before every worker is Ready.
fn of_ended_worker(observed: &Observed) -> Option<Outcome> {
    let job = &observed.job;
    let waits = |pod: &Pod| pod.phase == PodPhase::Pending && !pod.deleting;
    let gated = job.gate(&observed.site).is_some() && observed.launcher_pods.iter().any(waits);
    let awaited = !job.lifecycle.suspended
        && pods::running_launchers(observed) == 0
        && (gated || launcher::awaits_all_workers(observed));
    // A pod whose node is gone is first called Failed, without a reason, and deleted right after.
    let proves = |pod: &Pod| {
        pod.exit.is_some() || !pod.reason.is_empty() || pod.phase == PodPhase::Succeeded
    };
    let ended =
        |pod: &&Pod| pod.phase.is_over() && proves(pod) && !retry::is_replaced(observed, pod);
    let ended = pods::workers(observed).find(|pod| awaited && ended(pod))?;
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
    if observed.job.lifecycle.suspended {
        return None;
    }
    let evicted = pods::workers(observed)
        .filter(|pod| pod.phase == PodPhase::Failed && pod.reason == EVICTED)
        .filter(|pod| !retry::is_replaced(observed, pod))
        .count();
    (evicted > 0).then(|| {
        let message = format!(
            "{evicted}/{} workers are evicted",
            observed.job.worker_count()
        );
        let verdict = Verdict::Failed {
            reason: format!("{}{EVICTED}", observed.job.owner.kind),
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
        let (ready, wanted) = (pods::ready_workers(observed), observed.job.worker_count());
        let secs = at.duration_since(observed.recorded.started_at.unwrap_or(at));
        let message = format!(
            "the program did not start within {} s (startupTimeoutSeconds): {ready} of {wanted} \
             workers are Ready",
            secs.as_secs()
        );
        return Some(failed(observed, Reason::DeadlineExceeded, message));
    }
    let at = deadline::of_job(observed)?;
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
        reason = format!("{}Failed", owner.kind);
    }
    if message.is_empty() {
        let Owner {
            kind,
            namespace,
            name,
            ..
        } = owner;
        message = format!("{kind} {namespace}/{name} has failed");
    }
    if let Some(pod) = last_failed_pod(observed).filter(|_| reason == BACKOFF_LIMIT_EXCEEDED) {
        match agent_report::of_pod(pod) {
            Some(said) => {
                let known = said.reason().unwrap_or(Reason::CommandFailed);
                known.as_str().clone_into(&mut reason);
                message = truncated(format!("{}: {message}", said.message));
            }
            None if pod.phase == PodPhase::Failed => {
                reason = format!("{reason}/{}", pod.reason);
                message = truncated(format!("{message}: {}", pod.message));
            }
            None => {}
        }
    }
    Verdict::Failed { reason, message }
}

/// A pod whose container is started again in place is never Failed: it is removed when its tries are
/// used up, and until it is gone its status has how the last one ended.
fn last_failed_pod(observed: &Observed) -> Option<&Pod> {
    let failed = |pod: &&Pod| {
        let restarted = pod.exit.is_some() && pod.phase != PodPhase::Succeeded;
        pod.phase == PodPhase::Failed || restarted
    };
    let pods = observed.launcher_pods.iter().filter(failed);
    pods.max_by_key(|pod| pod.created_at)
}

/// No longer than a condition or an event may be.
pub(super) fn truncated(message: String) -> String {
    // First, because what replaces a character may be longer.
    text::truncated(&text::printable(&message), MESSAGE_BYTES_MAX)
}

/// The reason for a recorded failure.
pub(super) fn reason(observed: &Observed, reason: &str) -> Reason {
    let ours = Reason::from_text(reason).filter(|ours| ours.stage() == Stage::Ended);
    match ours {
        Some(ours) => ours,
        None if reason.ends_with(EVICTED) => Reason::Evicted,
        None => {
            let known = last_failed_pod(observed).and_then(of_exit);
            known.unwrap_or(Reason::CommandFailed)
        }
    }
}

/// The reason by the kubelet's word or the exit code of the container that failed.
fn of_exit(pod: &Pod) -> Option<Reason> {
    match pod.exit.as_ref()? {
        exit if exit.reason == "OOMKilled" => Some(Reason::OutOfMemory),
        exit if exit.code == 127 => Some(Reason::CommandNotFound),
        _ => None,
    }
}
