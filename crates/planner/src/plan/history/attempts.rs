//! How often the launcher's program was started, and why each attempt ended. An attempt is known by the time at
//! which its container began and by its number within that container, so that looks at different times tell of
//! the same attempts.

use contract::milestone::ATTEMPTS_MAX;

use super::Evidence;
use crate::history::LauncherAttempt;
use crate::launcher_run::LauncherRun;
use crate::observed::Observed;
use crate::plan::retry;

/// Adds the attempts that pods tell of to those that were recorded.
pub(super) fn add(
    observed: &Observed,
    evidence: &Evidence<'_>,
    attempts: &mut Vec<LauncherAttempt>,
) {
    let runs = evidence.launchers.iter().flat_map(|pod| &pod.runs);
    let mut runs: Vec<&LauncherRun> = runs.filter(|run| evidence.believes(run.began_at)).collect();
    runs.sort_by_key(|run| run.began_at);
    let mut known = std::mem::take(attempts);
    let is_listed = !known.is_empty();
    for run in runs {
        let before = attempts_before(run, &known);
        for attempt in of_run(run, before, evidence) {
            put(attempt, &mut known);
        }
    }
    known.sort_by_key(|attempt| attempt.number);
    known.dedup_by_key(|attempt| attempt.number);
    let surplus = known.len().saturating_sub(ATTEMPTS_MAX);
    known.drain(..surplus);
    let is_tried_again = known.iter().any(|attempt| attempt.number > 1);
    // It is counted before the pod goes that was tried first.
    let is_retried = retry::count(observed).restarts > 0;
    if is_listed || observed.job.recovery.is_some() || is_tried_again || is_retried {
        *attempts = known;
    }
}

/// How many attempts there were before those of this run.
fn attempts_before(run: &LauncherRun, known: &[LauncherAttempt]) -> u32 {
    let is_first_of = |attempt: &&LauncherAttempt| attempt.started_at == Some(run.began_at);
    if let Some(first) = known.iter().find(is_first_of) {
        return first.number.saturating_sub(1);
    }
    let earlier = known.iter();
    let earlier = earlier.filter(|attempt| attempt.started_at.is_none_or(|at| at < run.began_at));
    let last = earlier.map(|attempt| attempt.number).max();
    last.unwrap_or_default().max(run.runs_before)
}

/// The attempts of a run, of which so many were before it.
fn of_run(run: &LauncherRun, before: u32, evidence: &Evidence<'_>) -> Vec<LauncherAttempt> {
    let attempt = |number: u32| LauncherAttempt {
        number: before.saturating_add(number),
        started_at: (number == 1).then_some(run.began_at),
        ended_at: None,
        reason: None,
    };
    let Some(end) = &run.end else {
        return vec![attempt(1)];
    };
    let earlier = end.earlier.iter().map(|earlier| {
        let attempt = attempt(earlier.number);
        LauncherAttempt {
            started_at: attempt.started_at.or(earlier.began_at),
            ended_at: earlier.ended_at,
            reason: Some(earlier.reason),
            ..attempt
        }
    });
    let last = attempt(end.attempts);
    let last = LauncherAttempt {
        started_at: last.started_at.or(end.last_began_at),
        ended_at: end.at,
        reason: end.reason,
        ..last
    };
    let believed = |attempt: LauncherAttempt| LauncherAttempt {
        started_at: attempt.started_at.filter(|at| evidence.believes(*at)),
        ended_at: attempt.ended_at.filter(|at| evidence.believes(*at)),
        ..attempt
    };
    earlier.chain([last]).map(believed).collect()
}

/// What is recorded of an attempt stays; its end is added.
fn put(new: LauncherAttempt, known: &mut Vec<LauncherAttempt>) {
    match known.iter_mut().find(|old| old.number == new.number) {
        Some(old) => {
            old.started_at = old.started_at.or(new.started_at);
            old.ended_at = old.ended_at.or(new.ended_at);
            old.reason = old.reason.or(new.reason);
        }
        None => known.push(new),
    }
}
