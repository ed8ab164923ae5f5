//! Policy: the deadline of a job whose launcher does not run yet, and when to look again.

use jiff::{SignedDuration, Timestamp};

use super::{cleanup, stuck};
use crate::observed::{Observed, PodPhase};

/// When the job must be ended although its launcher never ran. `None` while the Job controller
/// watches the deadline itself, and for a deadline beyond the end of time.
pub(crate) fn before_launch(observed: &Observed) -> Option<Timestamp> {
    let waits = match observed.launcher.ours() {
        None => true,
        Some(launcher) => launcher.suspended && launcher.end.is_none(),
    };
    if !waits || observed.job.policy.suspended || observed.recorded.suspended {
        return None;
    }
    let started = observed.recorded.started_at?;
    let secs = i64::try_from(observed.job.policy.deadline_secs?).ok()?;
    started.checked_add(SignedDuration::from_secs(secs)).ok()
}

/// When the job must be ended because its program has not started.
pub(crate) fn of_startup(observed: &Observed) -> Option<Timestamp> {
    let begun = |pod: &crate::observed::Pod| pod.phase != PodPhase::Pending;
    let policy = &observed.job.policy;
    if policy.suspended || observed.recorded.suspended || observed.launcher_pods.iter().any(begun) {
        return None;
    }
    let started = observed.recorded.started_at?;
    let secs = i64::try_from(policy.startup_secs?).ok()?;
    started.checked_add(SignedDuration::from_secs(secs)).ok()
}

/// When to look again even if nothing happens.
pub(crate) fn wake(observed: &Observed) -> Option<Timestamp> {
    let over = observed.recorded.outcome.is_some();
    if over && cleanup::steps(observed).is_empty() {
        return None;
    }
    let stuck = stuck::worst(observed).map(|stuck| stuck.until());
    let deadlines = [before_launch(observed), of_startup(observed), stuck];
    let deadlines = deadlines.into_iter().flatten().filter(|_| !over);
    let retries = observed.refused.iter().map(|refusal| refusal.retry_at);
    deadlines
        .chain(retries)
        .filter(|at| *at > observed.now)
        .min()
}
