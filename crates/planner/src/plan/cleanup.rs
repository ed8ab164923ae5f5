//! Policy: what remains to be done once the outcome is recorded. Before that, nothing is
//! removed: what exists is the evidence.

use contract::labels::{END_ANNOTATION, QUEUE_RETRIABLE_ANNOTATION};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{expiry, gang, identity, launcher, pods, workers};
use crate::action::{Action, Kind};
use crate::job::{CleanUp, LauncherKind};
use crate::observed::{Observed, Pod, PodPhase};
use crate::recorded::Verdict;

const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// What can be done now.
pub(super) fn actions(observed: &Observed) -> Vec<Action> {
    // Everything that the job owns goes with it.
    if let Some(end) = expiry::due(observed) {
        return vec![end];
    }
    let workers = match observed.job.lifecycle.clean_up {
        _ if launcher_is_ending(observed) => Vec::new(),
        CleanUp::Notify => notify_workers(observed),
        CleanUp::Nothing if covers_launcher(observed) => gang::remove(observed),
        CleanUp::Nothing => Vec::new(),
        CleanUp::Running => [workers::remove_unfinished(observed), gang::remove(observed)].concat(),
        CleanUp::All => [workers::remove_all(observed), gang::remove(observed)].concat(),
    };
    let workers = workers.into_iter();
    workers
        .chain(launcher(observed))
        .chain(launcher_pod(observed))
        .chain(leave_queue(observed))
        .chain(orphans(observed))
        .chain(identity::remove_agent_keys(observed))
        .collect()
}

/// A program that was told to end has its grace period, and needs its workers for it.
pub(super) fn launcher_is_ending(observed: &Observed) -> bool {
    let alive = |pod: &Pod| pod.phase == PodPhase::Running;
    let until = grace_end(observed);
    until.is_some_and(|until| observed.now < until) && observed.launcher_pods.iter().any(alive)
}

/// Until when that is respected: the pods of a lost node never get a final phase.
pub(super) fn grace_end(observed: &Observed) -> Option<Timestamp> {
    let outcome = observed.recorded.outcome.as_ref()?;
    let failed = outcome.verdict != Verdict::Succeeded;
    let until = outcome.at.checked_add(GRACE).ok()?;
    failed.then_some(until)
}

fn covers_launcher(observed: &Observed) -> bool {
    let kind = observed.job.launcher.kind;
    matches!(
        kind,
        LauncherKind::Pod {
            is_cleaned_up: true,
            ..
        }
    )
}

/// A launcher that is a pod goes as the workers do, where the policy covers it. It still runs only where the job
/// failed around it: the launcher of a job that succeeded has ended, even if what we see of it is older than the
/// outcome, which another operator may have recorded.
fn launcher_pod(observed: &Observed) -> Vec<Action> {
    let outcome = observed.recorded.outcome.as_ref();
    let succeeded = outcome.is_some_and(|outcome| outcome.verdict == Verdict::Succeeded);
    let runs = |pod: &Pod| !pod.phase.is_over() && !succeeded;
    match observed.job.lifecycle.clean_up {
        CleanUp::Notify if observed.job.launcher.kind.is_pod() => {
            launcher::remove_pod(observed, runs)
        }
        CleanUp::Running if covers_launcher(observed) => launcher::remove_pod(observed, runs),
        CleanUp::All if covers_launcher(observed) => launcher::remove_pod(observed, |_| true),
        CleanUp::Nothing | CleanUp::Notify | CleanUp::Running | CleanUp::All => Vec::new(),
    }
}

/// How the job ended, in the word for pods.
fn end(observed: &Observed) -> Option<&'static str> {
    let outcome = observed.recorded.outcome.as_ref()?;
    Some(match outcome.verdict {
        Verdict::Succeeded => "Succeeded",
        Verdict::Failed { .. } => "Failed",
    })
}

/// Workers that run are told how the job ended; those that never started have no logs, and are deleted.
/// So is one that was told and whose sidecar was killed: its program would wait forever.
fn notify_workers(observed: &Observed) -> Vec<Action> {
    let merge = json!({"metadata": {"annotations": {(END_ANNOTATION): end(observed)}}});
    let live = pods::workers(observed).filter(|pod| !pod.phase.is_over());
    live.filter_map(|pod| match pod.phase {
        PodPhase::Pending => Some(pods::delete(pod)),
        _ if pod.told_end && was_killed(pod) => Some(pods::delete(pod)),
        _ if pod.told_end => None,
        _ => Some(Action::patch(Kind::Pod, &pod.name, &pod.uid, merge.clone())),
    })
    .collect()
}

/// Kueue keeps the room for all pods of a group until it hears that none comes any more.
fn leave_queue(observed: &Observed) -> Vec<Action> {
    let has_queue = observed.job.queue.is_some();
    let merge = json!({"metadata": {"annotations": {
        (END_ANNOTATION): end(observed),
        (QUEUE_RETRIABLE_ANNOTATION): "false",
    }}});
    let pods = observed.launcher_pods.iter();
    pods.filter(|pod| has_queue && !pod.deleting && !pod.told_end)
        .map(|pod| Action::patch(Kind::Pod, &pod.name, &pod.uid, merge.clone()))
        .collect()
}

/// A container of it was ended by a signal that it could not handle.
fn was_killed(pod: &Pod) -> bool {
    const KILLED: i32 = 128 + 9;
    pod.exit.as_ref().is_some_and(|exit| exit.code == KILLED)
}

/// A launcher that lost its Job is stopped if its job failed around it.
fn orphans(observed: &Observed) -> Vec<Action> {
    let outcome = observed.recorded.outcome.as_ref();
    match outcome.map(|outcome| &outcome.verdict) {
        Some(Verdict::Failed { .. }) => launcher::remove_orphans(observed),
        Some(Verdict::Succeeded) | None => Vec::new(),
    }
}

/// A launcher whose job failed around it is stopped; the time to live is handed over only now,
/// so that no Job can vanish before its outcome is recorded.
fn launcher(observed: &Observed) -> Option<Action> {
    let launcher = observed
        .launcher
        .ours()
        .filter(|launcher| !launcher.deleting)?;
    let outcome = observed.recorded.outcome.as_ref()?;
    let lost = outcome.verdict != Verdict::Succeeded;
    if lost && launcher.end.is_none() && !launcher.suspended {
        return Some(launcher::suspend(observed, launcher));
    }
    let due = expiry::of_launcher(observed).is_some_and(|at| at <= observed.now);
    if due && !launcher_is_ending(observed) {
        return Some(launcher::delete(observed, launcher));
    }
    let LauncherKind::Job { ttl_secs, .. } = observed.job.launcher.kind else {
        return None;
    };
    let ttl = ttl_secs.filter(|_| launcher.ttl_secs.is_none());
    ttl.map(|ttl| {
        let merge = json!({"spec": {"ttlSecondsAfterFinished": ttl}});
        launcher::patch(observed, launcher, merge)
    })
}
