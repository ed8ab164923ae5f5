//! I18 and I25.

use super::{Broken, Law, Rest, View, lowered, recorded};
use crate::fault::{Fault, FaultKind};
use crate::objects;

pub(super) const SENTENCE: &str = "Once the weather is calm, every job is over, suspended or gone, or all of its workers run; and its status is of its newest spec.";

#[derive(Default)]
pub(super) struct Converged;

impl Law for Converged {
    fn at_rest(&mut self, view: &View<'_>, rest: &Rest<'_>) -> Result<(), Broken> {
        for (resource, job) in objects::jobs(view.cluster) {
            let Some(lowered) = lowered(resource, job) else {
                return Err(format!("{} is invalid", objects::name(job)));
            };
            let recorded = recorded(resource, job);
            let status = &job["status"];
            let observed = status["observedGeneration"].as_i64();
            let generation = job["metadata"]["generation"].as_i64();
            // After a conflict the operator waits for the change that caused it. Ours have no cause.
            let conflict = |fault: &Fault| fault.kind == FaultKind::Conflict;
            let excused = rest.struck.iter().any(conflict);
            if observed.is_some() && observed != generation && !excused {
                let which = format!("of {generation:?}: {status}");
                return Err(format!("{} has an old status {which}", objects::name(job)));
            }
            if lowered.outlives_launcher() && !lowered.lifecycle.suspended {
                let workers = objects::pods(view.cluster).filter(|pod| !objects::is_launcher(pod));
                let workers = workers.filter(|pod| objects::job_uid(pod) == objects::uid(job));
                let ready = workers.filter(|pod| objects::is_ready(pod)).count();
                if ready != lowered.worker_count() as usize {
                    return Err(format!("{} has {ready} workers", objects::name(job)));
                }
            }
            if recorded.outcome.is_none()
                && !lowered.lifecycle.suspended
                && !lowered.outlives_launcher()
            {
                return Err(format!("{} is not over: {status}", objects::name(job)));
            }
        }
        Ok(())
    }
}
