//! Policy: the deadlines of a job that nobody else watches.

use jiff::{SignedDuration, Timestamp};

use crate::job::LauncherAs;
use crate::observed::{Observed, PodPhase};

/// When the job must be ended. `None` while the Job controller watches the deadline itself, and
/// for a deadline beyond the end of time.
pub(super) fn of_job(observed: &Observed) -> Option<Timestamp> {
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
pub(super) fn of_startup(observed: &Observed) -> Option<Timestamp> {
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
