//! I10.

use super::{Broken, Law, Rest, View, Write, lowered, recorded};
use crate::objects;
use crate::schedule::UserAction;

pub(super) const SENTENCE: &str =
    "A job counts no restart that did not happen, and is tried no more often than it may be.";

#[derive(Default)]
pub(super) struct ExactAttempts;

impl Law for ExactAttempts {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.subresource != "status" {
            return Ok(());
        }
        for (resource, job) in objects::jobs(view.cluster) {
            let counted = recorded(resource, job).restarts;
            let failed = view.kubelet.failed_pods.get(objects::uid(job));
            let failed = failed.copied().unwrap_or_default();
            if counted > failed {
                return Err(format!("{counted} restarts after {failed} failures"));
            }
        }
        Ok(())
    }

    fn at_rest(&mut self, view: &View<'_>, rest: &Rest<'_>) -> Result<(), Broken> {
        // A job that is resumed begins anew, and so does a launcher that somebody deleted.
        let resumed = |(_, action): &(u64, UserAction)| *action == UserAction::Resume;
        if rest.schedule.script.iter().any(resumed) {
            return Ok(());
        }
        for (resource, job) in objects::jobs(view.cluster) {
            let uid = objects::uid(job);
            let limits = lowered(resource, job).map(|job| job.limits().backoff_limit);
            let Some(limit) = limits.flatten().filter(|_| !rest.disturbed.contains(uid)) else {
                continue;
            };
            let failed = view.kubelet.failures.get(uid).copied().unwrap_or_default();
            if failed > limit + 1 {
                return Err(format!("{failed} failures with a limit of {limit}"));
            }
        }
        Ok(())
    }
}
