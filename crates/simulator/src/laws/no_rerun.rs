//! I9.

use super::{Broken, Law, Rest, View, Write};

pub(super) const SENTENCE: &str =
    "Once a launcher exited with 0, no launcher of its job is started again.";

#[derive(Default)]
pub(super) struct NoRerun;

impl Law for NoRerun {
    fn after_write(&mut self, view: &View<'_>, _: &Write<'_>) -> Result<(), Broken> {
        check(view)
    }

    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        check(view)
    }
}

fn check(view: &View<'_>) -> Result<(), Broken> {
    for job in view.jobs {
        let uid = job.uid();
        // Where others delete the evidence, a success may be lost; some jobs outlive their launcher.
        let excused = job.outlives_launcher() || view.disturbed.contains(uid);
        if view.kubelet.reruns.contains(uid) && !excused {
            return Err(format!("{} ran again", job.name()));
        }
    }
    Ok(())
}
