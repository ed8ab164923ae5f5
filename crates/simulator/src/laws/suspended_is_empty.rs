//! I15.

use super::{Broken, Law, Rest, View, lowered, recorded};
use crate::objects;

pub(super) const SENTENCE: &str = "A suspended job has no pod that may run.";

#[derive(Default)]
pub(super) struct SuspendedIsEmpty;

impl Law for SuspendedIsEmpty {
    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        for (resource, job) in objects::jobs(view.cluster) {
            let over = recorded(resource, job).outcome.is_some();
            let suspended = lowered(resource, job).is_some_and(|job| job.lifecycle.suspended);
            if over || !suspended {
                continue;
            }
            let mut pods = objects::pods(view.cluster).filter(|pod| objects::is_live(pod));
            if let Some(pod) = pods.find(|pod| objects::job_uid(pod) == objects::uid(job)) {
                return Err(format!("{} is left", objects::name(pod)));
            }
        }
        Ok(())
    }
}
