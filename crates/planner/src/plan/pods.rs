//! Facts about the pods of a job that several policies need. Decides nothing.

use crate::action::{Action, Kind};
use crate::job::LauncherKind;
use crate::observed::{Observed, Pod, PodPhase};

/// The reason of a pod that somebody holds before the scheduler.
pub(super) const SCHEDULING_GATED: &str = "SchedulingGated";

/// Workers that were asked for and are not being deleted.
pub(super) fn workers(observed: &Observed) -> impl Iterator<Item = &Pod> {
    let job = &observed.job;
    let asked_for = |pod: &&Pod| {
        let index = job.worker_index(&pod.name);
        index.is_some_and(|index| index < job.worker_count())
    };
    observed
        .workers
        .iter()
        .filter(|pod| !pod.deleting)
        .filter(asked_for)
}

/// Workers in this phase.
pub(super) fn workers_in(observed: &Observed, phase: PodPhase) -> u32 {
    count(workers(observed).filter(|pod| pod.phase == phase))
}

/// Workers that are Ready.
pub(super) fn ready_workers(observed: &Observed) -> u32 {
    count(workers(observed).filter(|pod| pod.ready && !pod.phase.is_over()))
}

/// The job's queue takes the room of the pods, one after the other: workers are gone, or back and not admitted.
/// What becomes of a launcher meanwhile says nothing of its program.
pub(super) fn are_taken(observed: &Observed) -> bool {
    let is_gated = |pod: &Pod| {
        let waiting = pod.waiting.as_ref();
        waiting.is_some_and(|waiting| waiting.reason == SCHEDULING_GATED)
    };
    let admitted = count(workers(observed).filter(|pod| !is_gated(pod)));
    observed.job.queue.is_some() && admitted < observed.job.worker_count()
}

/// The launcher's object exists.
pub(super) fn launcher_exists(observed: &Observed) -> bool {
    match observed.job.launcher.kind {
        LauncherKind::Job { .. } => observed.launcher.ours().is_some(),
        LauncherKind::Pod { .. } => !observed.launcher_pods.is_empty(),
    }
}

/// Launcher pods in phase Running.
pub(super) fn running_launchers(observed: &Observed) -> u32 {
    let running = |pod: &&Pod| pod.phase == PodPhase::Running;
    count(observed.launcher_pods.iter().filter(running))
}

/// Launcher pods that failed, as far as anybody counted.
pub(super) fn failed_launchers(observed: &Observed) -> u32 {
    let failed = |pod: &&Pod| pod.phase == PodPhase::Failed && !pod.deleting;
    match observed.launcher.ours() {
        Some(launcher) => launcher.failed_pods,
        None => count(observed.launcher_pods.iter().filter(failed)),
    }
}

/// Where it is, for messages: ` on NODE`, or nothing.
pub(super) fn place(pod: &Pod) -> String {
    match pod.node.as_str() {
        "" => String::new(),
        node => format!(" on {node}"),
    }
}

/// Deletes this very pod.
pub(super) fn delete(pod: &Pod) -> Action {
    Action::delete(Kind::Pod, &pod.name, &pod.uid)
}

fn count<'a>(pods: impl Iterator<Item = &'a Pod>) -> u32 {
    u32::try_from(pods.count()).expect("a job has far fewer pods than a u32 can count")
}
