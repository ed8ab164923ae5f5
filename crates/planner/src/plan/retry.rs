//! Policy: a pod of ours that was ended from outside is replaced, where its restart policy says so, and
//! containers are started again only so often. Pods that a Job or a StatefulSet makes are its
//! controller's business.
//!
//! A replacement is counted in the status before the failed pod goes, so that none is forgotten.

use super::pods;
use crate::action::Action;
use crate::job::{LauncherKind, RestartPolicy, Workers};
use crate::observed::{Observed, Pod, PodPhase};

/// Exit codes from here on tell of a signal, so the program was ended from outside.
const ENDED_FROM_OUTSIDE: i32 = 128;

/// The first failed pod that is to be replaced and is not counted yet.
pub(super) fn uncounted(observed: &Observed) -> Option<&Pod> {
    failed(observed).find(|pod| !is_counted(observed, pod))
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

/// The pod failed in a way after which it is replaced.
pub(super) fn is_replaced(observed: &Observed, pod: &Pod) -> bool {
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
    let pod = counted(observed);
    pod.map(pods::delete).into_iter().collect()
}

/// Pods that were replaced, and the last of them, for the status. The status has room for one UID, so
/// the next pod is counted when the last is gone: otherwise that one would be counted again.
pub(super) fn count(observed: &Observed) -> (u32, Option<String>) {
    let recorded = &observed.recorded;
    let next = uncounted(observed).filter(|_| counted(observed).is_none());
    match next {
        Some(pod) if !is_used_up(observed) => (recorded.restarts + 1, Some(pod.uid.clone())),
        Some(_) | None => (recorded.restarts, recorded.replaced.clone()),
    }
}

/// No more restarts are left, and another one happened or is needed.
pub(super) fn is_used_up(observed: &Observed) -> bool {
    let limit = observed.job.limits().backoff_limit;
    let Some(limit) = limit.filter(|_| observed.job.launcher.kind.is_pod()) else {
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
    let so_far = in_place.saturating_add(observed.recorded.restarts);
    let needed = uncounted(observed).is_some();
    so_far >= limit && (needed || in_place > 0)
}

fn is_counted(observed: &Observed, pod: &Pod) -> bool {
    observed.recorded.replaced.as_ref() == Some(&pod.uid)
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
