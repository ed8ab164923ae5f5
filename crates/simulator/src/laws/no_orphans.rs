//! I14.

use std::collections::{BTreeMap, BTreeSet};

use contract::labels::JOB_UID_LABEL;

use super::{Broken, Law, Rest, View, Write};
use crate::objects;

pub(super) const SENTENCE: &str = "Once a job is gone, nothing is left of it, and no object of it is created more than four times by one process of an operator.";

/// How often each object of a job was created that was gone.
#[derive(Default)]
pub(super) struct NoOrphans(BTreeMap<(String, String), usize>);

/// A pass that began before the job went looks so often at what exists.
const ROUNDS: usize = 4;

impl Law for NoOrphans {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        let owner = objects::controller(write.body);
        let Some(owner) = owner.filter(|_| write.call.rbac_verb() == "create") else {
            return Ok(());
        };
        if view.jobs.iter().any(|job| job.uid() == owner) {
            return Ok(());
        }
        let what = format!("{}/{}", write.call.plural, objects::name(write.body));
        let count = self.0.entry((owner.to_owned(), what.clone())).or_default();
        *count += 1;
        match *count > ROUNDS * view.weather.processes {
            true => Err(format!("{what} is created again and again")),
            false => Ok(()),
        }
    }

    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        let jobs: BTreeSet<&str> = view.jobs.iter().map(|job| job.uid()).collect();
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
