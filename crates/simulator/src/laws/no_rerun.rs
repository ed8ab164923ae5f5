//! I9.

use std::collections::BTreeSet;

use super::{Broken, Law, Rest, View, Write, lowered};
use crate::objects;

pub(super) const SENTENCE: &str =
    "Once a launcher exited with 0, no launcher of its job is started again.";

#[derive(Default)]
pub(super) struct NoRerun;

impl Law for NoRerun {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        check(view, write.disturbed)
    }

    fn at_rest(&mut self, view: &View<'_>, rest: &Rest<'_>) -> Result<(), Broken> {
        check(view, rest.disturbed)
    }
}

fn check(view: &View<'_>, disturbed: &BTreeSet<String>) -> Result<(), Broken> {
    for (resource, job) in objects::jobs(view.cluster) {
        let uid = objects::uid(job);
        // Where others delete the evidence, a success may be lost; some jobs outlive their launcher.
        let outlives = lowered(resource, job).is_some_and(|job| job.outlives_launcher());
        let excused = outlives || disturbed.contains(uid);
        if view.kubelet.reruns.contains(uid) && !excused {
            return Err(format!("{} ran again", objects::name(job)));
        }
    }
    Ok(())
}
