//! I18.

use super::{Broken, Law, Rest, View};
use crate::objects;

pub(super) const SENTENCE: &str = "Once the weather is calm, every job is over, suspended or gone, or all of its workers run; and its status is of its newest spec.";

#[derive(Default)]
pub(super) struct Converged;

impl Law for Converged {
    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        for job in view.jobs {
            let Some(lowered) = &job.lowered else {
                return Err(format!("{} is invalid", job.name()));
            };
            let status = &job.object["status"];
            let observed = status["observedGeneration"].as_i64();
            let generation = job.object["metadata"]["generation"].as_i64();
            if observed.is_some() && observed != generation {
                let which = format!("of {generation:?}: {status}");
                return Err(format!("{} has an old status {which}", job.name()));
            }
            if job.outlives_launcher() && !job.is_suspended() {
                let workers = job.workers(view.cluster);
                let ready = workers.filter(|pod| objects::is_ready(pod)).count();
                if ready != lowered.worker_count() as usize {
                    return Err(format!("{} has {ready} workers", job.name()));
                }
            }
            let is_done = job.is_over() || job.is_suspended() || job.outlives_launcher();
            if !is_done {
                return Err(format!("{} is not over: {status}", job.name()));
            }
        }
        Ok(())
    }
}
