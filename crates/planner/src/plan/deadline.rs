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
    let pods = &observed.launcher_pods;
    let launcher = observed.launcher.ours();
    // A try that came after another is not the start.
    let begun = pods.iter().any(|pod| pod.phase != PodPhase::Pending)
        || launcher.is_some_and(|launcher| launcher.failed_pods > 0);
    let policy = &observed.job.policy;
    if policy.suspended || observed.recorded.suspended || begun {
        return None;
    }
    let started = observed.recorded.started_at?;
    let secs = i64::try_from(policy.startup_secs?).ok()?;
    started.checked_add(SignedDuration::from_secs(secs)).ok()
}

/// When to look again even if nothing happens.
pub(crate) fn wake(observed: &Observed) -> Option<Timestamp> {
    let over = observed.recorded.outcome.is_some();
    if over && cleanup::is_done(observed) {
        return expiry::at(observed);
    }
    let farewell = cleanup::farewell(observed);
    let stuck = stuck::worst(observed).map(|stuck| stuck.until());
    let deadlines = [of_job(observed), of_startup(observed), stuck];
    let deadlines = deadlines.into_iter().flatten().filter(|_| !over);
    let retries = observed.refused.iter().map(|refusal| refusal.retry_at);
    deadlines
        .chain(retries)
        .chain(farewell)
        .filter(|at| *at > observed.now)
        .min()
}
