//! The runs of a launcher's container of which its pod's status tells: the one now, and the one before it. Of a
//! launcher with several containers, the one with a report of the agent counts, or else the first that failed.

use planner::{LauncherRun, RunEnd, read_agent_report};

use super::{ContainerStatus, PodStatus, Terminated};

/// The runs, the earlier one first.
pub(super) fn runs(status: &PodStatus) -> Vec<LauncherRun> {
    let Some(container) = container(status) else {
        return Vec::new();
    };
    let restarts = u32::try_from(container.restart_count).unwrap_or_default();
    let now = container.state.as_ref();
    let before = container.last_state.as_ref();
    let before = before.and_then(|state| state.terminated.as_ref());
    let before = before.and_then(|end| ended(end, restarts.saturating_sub(1)));
    let current = now.and_then(|state| match (&state.running, &state.terminated) {
        (Some(running), _) => Some(LauncherRun {
            began_at: running.started_at.as_ref()?.0,
            runs_before: restarts,
            end: None,
        }),
        (None, Some(end)) => ended(end, restarts),
        (None, None) => None,
    });
    before.into_iter().chain(current).collect()
}

fn ended(end: &Terminated, runs_before: u32) -> Option<LauncherRun> {
    let message = end.message.as_ref();
    let said = message.and_then(|message| read_agent_report(message.as_str()));
    let reason = end.reason.as_ref().map_or("", |reason| reason.as_str());
    let at = end.finished_at.as_ref().map(|at| at.0);
    Some(LauncherRun {
        began_at: end.started_at.as_ref()?.0,
        runs_before,
        end: Some(Box::new(RunEnd::new(
            at,
            end.exit_code,
            reason,
            said.as_ref(),
        ))),
    })
}

fn container(status: &PodStatus) -> Option<&ContainerStatus> {
    let containers = || status.container_statuses.iter().flatten();
    let ends = |container: &&ContainerStatus| {
        let states = [&container.state, &container.last_state];
        let states = states.into_iter().flatten();
        let ends: Vec<Terminated> = states
            .filter_map(|state| state.terminated.clone())
            .collect();
        ends
    };
    let has_report = |container: &&ContainerStatus| {
        let ends = ends(container).into_iter();
        let mut messages = ends.filter_map(|end| end.message);
        messages.any(|message| read_agent_report(message.as_str()).is_some())
    };
    let has_failed =
        |container: &&ContainerStatus| ends(container).iter().any(|end| end.exit_code != 0);
    containers()
        .find(has_report)
        .or_else(|| containers().find(has_failed))
        .or_else(|| containers().next())
}
