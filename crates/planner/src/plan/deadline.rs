//! Policy: the deadlines of a job that nobody else watches, and when to look again.

use jiff::{SignedDuration, Timestamp};

use super::{cleanup, expiry, stuck};
use crate::job::LauncherAs;
use crate::observed::{Observed, PodPhase};

/// When the job must be ended. `None` while the Job controller watches the deadline itself, and
/// for a deadline beyond the end of time.
pub(crate) fn of_job(observed: &Observed) -> Option<Timestamp> {
    let waits = match (observed.job.launcher_as, observed.launcher.ours()) {
        (LauncherAs::Pod, _) | (LauncherAs::Job, None) => true,
        (LauncherAs::Job, Some(launcher)) => launcher.suspended && launcher.end.is_none(),
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
        return expiry::at(observed);
    }
    let stuck = stuck::worst(observed).map(|stuck| stuck.until());
    let deadlines = [of_job(observed), of_startup(observed), stuck];
    let deadlines = deadlines.into_iter().flatten().filter(|_| !over);
    let retries = observed.refused.iter().map(|refusal| refusal.retry_at);
    deadlines
        .chain(retries)
        .filter(|at| *at > observed.now)
        .min()
}
