//! The times that the status of a pod gets while the pod starts, runs and ends. Must not know what is expected.

use jiff::Timestamp;
use planner::observed::Pod;
use planner::{LauncherRun, RunEnd, read_agent_report};

/// It has its node, its volumes and its network, and its images are pulled.
pub(crate) fn pulls(pod: &mut Pod, now: Timestamp) {
    let start = &mut pod.start;
    for step in [&mut start.scheduled_at, &mut start.sandbox_at] {
        step.get_or_insert(now);
    }
    start.initialized_at.get_or_insert(now);
}

/// Its containers run.
pub(crate) fn begins(pod: &mut Pod, now: Timestamp) {
    pulls(pod, now);
    let start = &mut pod.start;
    for step in [&mut start.first_begun_at, &mut start.begun_at] {
        step.get_or_insert(now);
    }
}

/// They run, and it is Ready.
pub(crate) fn is_ready(pod: &mut Pod, now: Timestamp) {
    begins(pod, now);
    pod.start.ready_at.get_or_insert(now);
}

/// The container of a launcher began.
pub(crate) fn launcher_begins(pod: &mut Pod, now: Timestamp) {
    is_ready(pod, now);
    if pod.runs.is_empty() {
        pod.runs.push(LauncherRun {
            began_at: now,
            runs_before: 0,
            end: None,
        });
    }
}

/// The container of a launcher ended with this code and these last words.
pub(crate) fn launcher_ends(pod: &mut Pod, code: i32, words: &str, now: Timestamp) {
    launcher_begins(pod, now);
    let said = read_agent_report(words);
    for run in &mut pod.runs {
        run.end = Some(Box::new(RunEnd::new(Some(now), code, "", said.as_ref())));
    }
    pod.start.ready_at = None;
}
