//! Policy: a pod that was ended from outside is made again, where its role says so, and containers
//! are started again only so often. Only for jobs whose launcher is a pod: a launcher that is a Job
//! is its controller's business.
//!
//! A replacement is counted in the status before the failed pod goes, so that none is forgotten.

use super::pods;
use crate::action::Action;
use crate::job::{LauncherAs, RestartPolicy, Role};
use crate::observed::{Observed, Pod, PodPhase};

/// Exit codes from here on tell of a signal, so the program was ended from outside.
const ENDED_FROM_OUTSIDE: i32 = 128;

/// The first failed pod that is to be made again, counted or not.
pub(super) fn failed(observed: &Observed) -> Option<&Pod> {
    let launchers = observed.launcher_pods.iter();
    let mut pods = launchers.chain(pods::workers(observed));
    pods.find(|pod| is_replaced(observed, pod))
}

/// The pod failed in a way after which it is made again.
pub(super) fn is_replaced(observed: &Observed, pod: &Pod) -> bool {
    let from_outside = |pod: &Pod| match &pod.exit {
        Some(exit) => exit.code >= ENDED_FROM_OUTSIDE,
        // Its node was lost, or it had to leave it.
        None => true,
    };
    observed.job.launcher_as == LauncherAs::Pod
        && role_of(observed, pod).restart == RestartPolicy::ExitCode
        && pod.phase == PodPhase::Failed
        && !pod.deleting
        && from_outside(pod)
}

/// The failed pod that was counted goes, so that its name is free for the next.
pub(super) fn remove_counted(observed: &Observed) -> Vec<Action> {
    let pod = failed(observed).filter(|pod| is_counted(observed, pod));
    pod.map(pods::delete).into_iter().collect()
}

/// Pods that were made again, and the last of them, as the status should say now.
pub(super) fn count(observed: &Observed) -> (u32, Option<String>) {
    let recorded = &observed.recorded;
    match failed(observed).filter(|pod| !is_counted(observed, pod)) {
        Some(pod) if !is_used_up(observed) => (recorded.restarts + 1, Some(pod.uid.clone())),
        Some(_) | None => (recorded.restarts, recorded.replaced.clone()),
    }
}

/// No more restarts are left, and another one happened or is needed.
pub(super) fn is_used_up(observed: &Observed) -> bool {
    let limit = observed.job.policy.backoff_limit;
    let (Some(limit), LauncherAs::Pod) = (limit, observed.job.launcher_as) else {
        return false;
    };
    let restarts = |pod: &Pod| match role_of(observed, pod).restart {
        RestartPolicy::Never => 0,
        RestartPolicy::OnFailure | RestartPolicy::Always | RestartPolicy::ExitCode => pod.restarts,
    };
    let launchers = observed.launcher_pods.iter();
    let pods = launchers.chain(pods::workers(observed));
    let running = pods.filter(|pod| pod.phase == PodPhase::Running);
    let in_place: u32 = running.map(restarts).sum();
    let so_far = in_place.saturating_add(observed.recorded.restarts);
    let needed = failed(observed).is_some_and(|pod| !is_counted(observed, pod));
    so_far >= limit && (needed || in_place > 0)
}

fn is_counted(observed: &Observed, pod: &Pod) -> bool {
    observed.recorded.replaced.as_ref() == Some(&pod.uid)
}

fn role_of<'o>(observed: &'o Observed, pod: &Pod) -> &'o Role {
    let job = &observed.job;
    match &job.workers {
        Some(workers) if job.worker_index(&pod.name).is_some() => &workers.role,
        Some(_) | None => &job.launcher,
    }
}
