//! Policy: a job that was given a time to live goes, with everything it owns, once it is over and
//! that time has passed. So does a launcher's Job that was given one, where Kubernetes does not see to it.

use jiff::{SignedDuration, Timestamp};

use crate::action::Action;
use crate::job::LauncherKind;
use crate::observed::Observed;

/// When the job goes; never for one that is not over, is going already, or would go after the end
/// of time.
pub(super) fn at(observed: &Observed) -> Option<Timestamp> {
    let outcome = observed.recorded.outcome.as_ref()?;
    let secs = observed.job.limits().expires_secs?;
    let at = outcome
        .at
        .checked_add(SignedDuration::from_secs(secs.into()));
    at.ok().filter(|_| !observed.job.owner.deleting)
}

/// The job goes, if it is time.
pub(super) fn due(observed: &Observed) -> Option<Action> {
    let due = at(observed).is_some_and(|at| at <= observed.now);
    due.then(|| Action::DeleteJob {
        uid: observed.job.owner.uid.clone(),
    })
}

/// When a launcher's Job goes that was stopped because the job failed around it. A stopped Job is never
/// over for Kubernetes, which therefore never deletes it.
pub(super) fn of_launcher(observed: &Observed) -> Option<Timestamp> {
    let outcome = observed.recorded.outcome.as_ref()?;
    let LauncherKind::Job { ttl_secs, .. } = observed.job.launcher.kind else {
        return None;
    };
    let launcher = observed.launcher.ours()?;
    let is_stopped = launcher.suspended && launcher.end.is_none() && !launcher.deleting;
    let secs = ttl_secs.filter(|_| is_stopped)?;
    let at = outcome
        .at
        .checked_add(SignedDuration::from_secs(secs.into()));
    at.ok()
}
