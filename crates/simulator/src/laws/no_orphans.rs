//! I14.

use std::collections::BTreeSet;

use contract::labels::JOB_UID_LABEL;

use super::{Broken, Law, Rest, View};
use crate::objects;

pub(super) const SENTENCE: &str = "Once a job is gone, nothing is left of it.";

#[derive(Default)]
pub(super) struct NoOrphans;

impl Law for NoOrphans {
    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        let jobs: BTreeSet<&str> = objects::jobs(view.cluster)
            .map(|(_, job)| objects::uid(job))
            .collect();
        for (group, plural) in objects::CHILDREN {
            for object in view.cluster.objects(group, plural) {
                let job = object["metadata"]["labels"][JOB_UID_LABEL].as_str();
                let is_ours = objects::controller(object).is_some();
                if is_ours && job.is_some_and(|job| !jobs.contains(job)) {
                    return Err(format!("{plural}/{} is left", objects::name(object)));
                }
            }
        }
        Ok(())
    }
}
