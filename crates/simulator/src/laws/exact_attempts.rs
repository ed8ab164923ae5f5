//! I10.

use super::{Broken, Law, Rest, View, Write};
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
        for job in view.jobs {
            let counted = job.recorded.replacements.restarts;
            let failed = view.kubelet.failed_pods.get(job.uid());
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
        for job in view.jobs {
            let uid = job.uid();
            let lowered = job.lowered.as_ref();
            let limit = lowered.and_then(|job| job.limits().backoff_limit);
            let Some(limit) = limit.filter(|_| !view.disturbed.contains(uid)) else {
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
