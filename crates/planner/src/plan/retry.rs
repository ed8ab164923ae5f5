//! Policy: a pod of ours that was ended from outside is replaced, where its restart policy says so, and
//! containers are started again only so often. Pods that a Job or a StatefulSet makes are its
//! controller's business. Workers of a job that asks for recovery are replaced in the same way.
//!
//! A replacement is counted in the status before the failed pod goes, so that none is forgotten.

use super::{pods, recovery};
use crate::action::Action;
use crate::job::{LauncherKind, RestartPolicy, Workers};
use crate::observed::{Observed, Pod, PodPhase};
use crate::recorded::Replacements;

/// Exit codes from here on tell of a signal, so the program was ended from outside.
const ENDED_FROM_OUTSIDE: i32 = 128;

/// The first pod that failed again and needs a retry which is not counted yet.
pub(super) fn unretried(observed: &Observed) -> Option<&Pod> {
    let mut failed = failed(observed).filter(|pod| !recovery::is_lost(observed, pod));
    failed.find(|pod| !is_counted(observed, pod))
}

/// The failed pod that was counted last, as long as it is there.
fn counted(observed: &Observed) -> Option<&Pod> {
    failed(observed).find(|pod| is_counted(observed, pod))
}

fn failed(observed: &Observed) -> impl Iterator<Item = &Pod> {
    let launchers = observed.launcher_pods.iter();
    let pods = launchers.chain(pods::workers(observed));
    pods.filter(|pod| is_replaced(observed, pod))
}

/// The pod ended in a way after which it is replaced.
pub(super) fn is_replaced(observed: &Observed, pod: &Pod) -> bool {
    recovery::is_lost(observed, pod) || is_retried(observed, pod)
}

/// Its restart policy replaces it.
fn is_retried(observed: &Observed, pod: &Pod) -> bool {
    let from_outside = |pod: &Pod| match &pod.exit {
        Some(exit) => exit.code >= ENDED_FROM_OUTSIDE,
        // Its node was lost, or it had to leave it.
        None => true,
    };
    restart_of(observed, pod) == Some(RestartPolicy::ExitCode)
        && pod.phase == PodPhase::Failed
        && !pod.deleting
        && from_outside(pod)
}

/// The failed pod that was counted goes, so that its name is free for the next.
pub(super) fn remove_counted(observed: &Observed) -> Vec<Action> {
    let is_due = |pod: &&Pod| {
        let is_lost = recovery::is_lost(observed, pod);
        !is_lost || recovery::due(pod) <= observed.now
    };
    let pod = counted(observed).filter(is_due);
    pod.map(pods::delete).into_iter().collect()
}

/// Pods that were replaced, and the last of them, for the status. The status has room for one UID, so
/// the next pod is counted when the last is gone: otherwise that one would be counted again.
pub(super) fn count(observed: &Observed) -> Replacements {
    let mut counts = observed.recorded.replacements.clone();
    let next = failed(observed).find(|pod| !is_counted(observed, pod));
    let Some(pod) = next.filter(|_| counted(observed).is_none()) else {
        return counts;
    };
    if recovery::is_lost(observed, pod) {
        counts.lost_workers = counts.lost_workers.saturating_add(1);
    } else if is_used_up(observed) {
        return counts;
    } else {
        counts.restarts = counts.restarts.saturating_add(1);
    }
    counts.last = Some(pod.uid.clone());
    counts
}

/// No more restarts are left, and another one happened or is needed.
pub(super) fn is_used_up(observed: &Observed) -> bool {
    let limit = observed.job.limits().backoff_limit;
    let may_be = observed.job.launcher.kind.is_pod() && !pods::are_taken(observed);
    let Some(limit) = limit.filter(|_| may_be) else {
        return false;
    };
    let restarts = |pod: &Pod| match restart_of(observed, pod) {
        None | Some(RestartPolicy::Never) => 0,
        Some(_) => pod.restarts,
    };
    let launchers = observed.launcher_pods.iter();
    let pods = launchers.chain(pods::workers(observed));
    let running = pods.filter(|pod| pod.phase == PodPhase::Running);
    let in_place: u32 = running.map(restarts).sum();
    let so_far = in_place.saturating_add(observed.recorded.replacements.restarts);
    let needed = unretried(observed).is_some();
    so_far >= limit && (needed || in_place > 0)
}

fn is_counted(observed: &Observed, pod: &Pod) -> bool {
    observed.recorded.replacements.last.as_ref() == Some(&pod.uid)
}

/// The restart policy of a pod of ours.
fn restart_of(observed: &Observed, pod: &Pod) -> Option<RestartPolicy> {
    let job = &observed.job;
    let is_worker = job.worker_index(&pod.name).is_some();
    match (&job.workers, job.launcher.kind) {
        (Workers::Pods(workers), _) if is_worker => Some(workers.restart),
        (Workers::StatefulSet(_), _) if is_worker => None,
        (_, LauncherKind::Pod { restart, .. }) => Some(restart),
        (_, LauncherKind::Job { .. }) => None,
    }
}
