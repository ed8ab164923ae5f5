//! I8.

use planner::Verdict;

use super::{Broken, Law, View, Write};
use crate::clock;

pub(super) const SENTENCE: &str = "A job is recorded as succeeded only if one of its launchers exited with 0 and nobody had told it to stop, and as failed only if something of it failed, or its time was over.";

#[derive(Default)]
pub(super) struct TruthfulVerdict;

impl Law for TruthfulVerdict {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.subresource != "status" {
            return Ok(());
        }
        for job in view.jobs {
            let uid = job.uid();
            let outcome = job.recorded.outcome.as_ref();
            match outcome.map(|outcome| &outcome.verdict) {
                Some(Verdict::Succeeded) if !has_succeeded(view, uid) => {
                    return Err("no launcher of it exited with 0 by itself".to_owned());
                }
                Some(Verdict::Failed { reason, .. }) => {
                    let failed = view.kubelet.failures.contains_key(uid);
                    let lowered = job.lowered.as_ref();
                    let limits = lowered.and_then(|job| job.limits().deadline_secs);
                    let started = job.recorded.started_at;
                    let age = started.map(|at| clock::now().duration_since(at).as_secs());
                    let late = limits
                        .zip(age)
                        .is_some_and(|(limit, age)| age >= i64::try_from(limit).unwrap_or(0));
                    let excused = view.disturbed.contains(uid)
                        || (limits.is_some() && view.weather.wrong_clocks);
                    if reason.is_empty() || !(failed || late || excused) {
                        return Err(format!("it failed ({reason}), and nothing of it did"));
                    }
                }
                Some(Verdict::Succeeded) | None => {}
            }
        }
        Ok(())
    }
}

/// Some programs exit with 0 when they are told to stop. If somebody else told them, the Job controller counts that
/// as a success, and so do we.
fn has_succeeded(view: &View<'_>, uid: &str) -> bool {
    let told = view.kubelet.exited_zero.contains(uid) && view.disturbed.contains(uid);
    told || view.kubelet.succeeded.contains(uid)
}
