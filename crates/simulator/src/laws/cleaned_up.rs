//! I13.

use planner::job::CleanUp;

use super::{Broken, Law, Rest, View, lowered, recorded};
use crate::objects;

pub(super) const SENTENCE: &str =
    "Of a job that is over, no worker is left that its clean-up policy removes.";

#[derive(Default)]
pub(super) struct CleanedUp;

impl Law for CleanedUp {
    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        for (resource, job) in objects::jobs(view.cluster) {
            let Some(lowered) = lowered(resource, job) else {
                continue;
            };
            if recorded(resource, job).outcome.is_none() || lowered.outlives_launcher() {
                continue;
            }
            let workers = objects::pods(view.cluster).filter(|pod| !objects::is_launcher(pod));
            for pod in workers.filter(|pod| objects::job_uid(pod) == objects::uid(job)) {
                let stays = match lowered.lifecycle.clean_up {
                    CleanUp::Nothing => true,
                    CleanUp::Running | CleanUp::Notify => !objects::is_live(pod),
                    CleanUp::All => false,
                };
                if !stays {
                    return Err(format!("{} is left", objects::name(pod)));
                }
            }
        }
        Ok(())
    }
}
