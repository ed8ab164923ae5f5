//! I8.

use planner::Verdict;

use super::{Broken, Law, View, Write, lowered, recorded};
use crate::{clock, objects};

pub(super) const SENTENCE: &str = "A job is recorded as succeeded only if one of its launchers exited with 0, and as failed only if something of it failed, or its time was over.";

#[derive(Default)]
pub(super) struct TruthfulVerdict;

impl Law for TruthfulVerdict {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.subresource != "status" {
            return Ok(());
        }
        for (resource, job) in objects::jobs(view.cluster) {
            let uid = objects::uid(job);
            let recorded = recorded(resource, job);
            match recorded.outcome.map(|outcome| outcome.verdict) {
                Some(Verdict::Succeeded) if !view.kubelet.exited_zero.contains(uid) => {
                    return Err("no launcher of it exited with 0".to_owned());
                }
                Some(Verdict::Failed { reason, .. }) => {
                    let failed = view.kubelet.failures.contains_key(uid);
                    let limits = lowered(resource, job).and_then(|job| job.limits().deadline_secs);
                    let age = recorded
                        .started_at
                        .map(|at| clock::now().duration_since(at).as_secs());
                    let late = limits
                        .zip(age)
                        .is_some_and(|(limit, age)| age >= i64::try_from(limit).unwrap_or(0));
                    let excused = write.disturbed.contains(uid)
                        || (limits.is_some() && write.weather.wrong_clocks);
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
