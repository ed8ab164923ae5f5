//! Policy: the deadlines of a job that nobody else watches.

use jiff::{SignedDuration, Timestamp};

use crate::observed::{Observed, PodPhase};

/// When the job must be ended. `None` while the Job controller watches the deadline itself, and
/// for a deadline beyond the end of time.
pub(super) fn of_job(observed: &Observed) -> Option<Timestamp> {
    let waits = match observed.launcher.ours() {
        None => true,
        Some(launcher) => launcher.suspended && launcher.end.is_none(),
    };
    if !waits || observed.job.lifecycle.suspended || observed.recorded.suspended {
        return None;
    }
    let started = observed.recorded.started_at?;
    let secs = i64::try_from(observed.job.limits().deadline_secs?).ok()?;
    started.checked_add(SignedDuration::from_secs(secs)).ok()
}

/// When the job must be ended because its program has not started.
pub(super) fn of_startup(observed: &Observed) -> Option<Timestamp> {
    let pods = &observed.launcher_pods;
    let launcher = observed.launcher.ours();
    // A try that came after another is not the start. Its pod may be gone at the moment.
    let begun = pods.iter().any(|pod| pod.phase != PodPhase::Pending)
        || launcher.is_some_and(|launcher| launcher.failed_pods > 0)
        || observed.recorded.ran
        || observed.recorded.replacements.restarts > 0;
    if observed.job.lifecycle.suspended || observed.recorded.suspended || begun {
        return None;
    }
    let started = observed.recorded.started_at?;
    let secs = i64::try_from(observed.job.limits().startup_secs?).ok()?;
    started.checked_add(SignedDuration::from_secs(secs)).ok()
}
