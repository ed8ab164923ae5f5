//! Policy: jobs whose pods come up by a script of their own. The launcher's last words tell whether it
//! ever got to its program; workers are told of the end, and end by themselves, so that their logs stay.

use contract::files::INIT_FAILED_WORDS;
use contract::labels::END_ANNOTATION;
use serde_json::json;

use super::pods;
use crate::action::{Action, Kind};
use crate::observed::{Observed, Pod, PodPhase};
use crate::recorded::Verdict;

/// What such a script exits with when it gives up.
const GAVE_UP: i32 = 124;

/// Why the launcher never got to its program, if it did not. A program may exit with the same code, so
/// the script's own words count.
pub(super) fn failure(observed: &Observed, pod: &Pod) -> Option<String> {
    let own = observed.job.bootstrap.as_ref()?;
    let said = words(pod)?;
    let place = match pod.node.as_str() {
        "" => String::new(),
        node => format!(" on {node}"),
    };
    let (ready, wanted) = (pods::ready_workers(observed), observed.job.worker_count());
    let mut message = format!(
        "initialisation failed: {}{place} exited with {GAVE_UP}: {said}; {ready} of {wanted} workers are \
         Ready, initTimeout is {} s",
        pod.name, own.init_secs
    );
    let ended = pods::workers(observed).filter(|pod| pod.phase == PodPhase::Failed);
    for worker in ended.take(1) {
        let how = worker.exit.as_ref().map(|exit| {
            let words = words(worker).unwrap_or(exit.message.as_str());
            format!(": {} exited with {} {words}", exit.container, exit.code)
        });
        message += &format!("; {} failed{}", worker.name, how.unwrap_or_default());
    }
    Some(message)
}

/// The script's last words, if it gave up.
fn words(pod: &Pod) -> Option<&str> {
    let exit = pod.exit.as_ref().filter(|exit| exit.code == GAVE_UP)?;
    let said = exit.message.trim_end();
    said.strip_prefix(INIT_FAILED_WORDS)
}

/// The launcher is on its way out before it ended, or was seen to run and is there no more.
pub(super) fn lost_launcher(observed: &Observed) -> bool {
    let mut pods = observed.launcher_pods.iter();
    let leaves = pods.any(|pod| pod.deleting && pod.phase != PodPhase::Succeeded);
    let gone = observed.recorded.ran && observed.launcher_pods.is_empty();
    observed.job.bootstrap.is_some() && (leaves || gone)
}

/// Workers that run are told of the end; those that never started have no logs, and need not. One whose
/// sidecar was killed waits for a word that nobody gives it.
pub(super) fn dismiss_workers(observed: &Observed) -> Vec<Action> {
    let Some(outcome) = &observed.recorded.outcome else {
        return Vec::new();
    };
    let how = match outcome.verdict {
        Verdict::Succeeded => "Succeeded",
        Verdict::Failed { .. } => "Failed",
    };
    let live = pods::workers(observed).filter(|pod| !pod.phase.is_over());
    let actions = live.filter_map(|pod| match pod.phase {
        _ if pod.deleting => None,
        PodPhase::Pending => Some(pods::delete(pod)),
        _ if pod.told_end && was_killed(pod) => Some(pods::delete(pod)),
        _ if pod.told_end => None,
        _ => {
            let merge = json!({"metadata": {"annotations": {(END_ANNOTATION): how}}});
            Some(Action::patch(Kind::Pod, &pod.name, &pod.uid, merge))
        }
    });
    actions.collect()
}

/// A container of it was ended by a signal that it could not answer.
fn was_killed(pod: &Pod) -> bool {
    const KILLED: i32 = 128 + 9;
    pod.exit.as_ref().is_some_and(|exit| exit.code == KILLED)
}
