//! Policy: a job whose templates start its pods by a script of their own. The launcher's last words tell
//! whether the script ever got to the program.

use contract::files::INIT_FAILED_WORDS;

use super::pods;
use crate::job::{Access, Workers};
use crate::observed::{Observed, Pod, PodPhase};

/// What the script exits with when it gives up.
const GAVE_UP: i32 = 124;

/// Why the launcher never got to its program, if it did not. A program may exit with the same code, so
/// the script's own words count.
pub(super) fn failure(observed: &Observed, pod: &Pod) -> Option<String> {
    let Workers::Pods(workers) = &observed.job.workers else {
        return None;
    };
    let Access::Provided(provided) = &workers.access else {
        return None;
    };
    let said = words(pod)?;
    let place = pods::place(pod);
    let (ready, wanted) = (pods::ready_workers(observed), observed.job.worker_count());
    let mut message = format!(
        "initialisation failed: {}{place} exited with {GAVE_UP}: {said}; {ready} of {wanted} workers are \
         Ready, {}",
        pod.name, provided.startup_limit
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
