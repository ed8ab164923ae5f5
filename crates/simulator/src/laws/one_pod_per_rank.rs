//! I2.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::labels::REPLICA_INDEX_LABEL;
use planner::job::CleanUp;
use serde_json::Value;

use super::{Broken, Law, PROMPT_MS, Rest, View, Write};
use crate::job_view::JobView;
use crate::{clock, objects};

pub(super) const SENTENCE: &str = "A job has at most one worker that may run for each index; and none above its number of workers, at the end and, if no fault struck, five seconds after that number changed.";

/// The number of workers of each job, and since when.
#[derive(Default)]
pub(super) struct OnePodPerRank(BTreeMap<String, (u32, u64)>);

impl Law for OnePodPerRank {
    fn after_report(&mut self, view: &View<'_>) -> Result<(), Broken> {
        let now = clock::millis();
        for job in view.jobs {
            let Some(lowered) = &job.lowered else {
                continue;
            };
            let count = lowered.worker_count();
            let known = self.0.entry(job.uid().to_owned()).or_insert((count, now));
            if known.0 != count {
                *known = (count, now);
            }
            let since = known.1;
            if since + PROMPT_MS <= now && view.weather.is_quiet_since(since) && !job.is_over() {
                no_surplus(view, job)?;
            }
        }
        Ok(())
    }

    fn after_write(&mut self, view: &View<'_>, _: &Write<'_>) -> Result<(), Broken> {
        self.after_report(view)?;
        let mut seen = BTreeSet::new();
        let workers = objects::pods(view.cluster).filter(|pod| !objects::is_launcher(pod));
        for pod in workers.filter(|pod| objects::is_live(pod)) {
            let index = pod["metadata"]["labels"][REPLICA_INDEX_LABEL].as_str();
            if let Some(index) = index
                && !seen.insert((objects::job_uid(pod), index))
            {
                return Err(format!("{} is the second of its index", objects::name(pod)));
            }
        }
        Ok(())
    }

    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        for job in view.jobs {
            // What stays of a job that is over stays as it was.
            let keeps_all = job
                .lowered
                .as_ref()
                .is_some_and(|job| job.lifecycle.clean_up == CleanUp::Nothing);
            if !(job.is_over() && keeps_all) {
                no_surplus(view, job)?;
            }
        }
        Ok(())
    }
}

fn no_surplus(view: &View<'_>, job: &JobView) -> Result<(), Broken> {
    let Some(lowered) = &job.lowered else {
        return Ok(());
    };
    let count = lowered.worker_count();
    let is_surplus = |pod: &&Arc<Value>| {
        let index = lowered.worker_index(objects::name(pod));
        objects::stays(pod) && index.is_some_and(|index| index >= count)
    };
    match job.workers(view.cluster).find(is_surplus) {
        Some(pod) => Err(format!("{} of {count}", objects::name(pod))),
        None => Ok(()),
    }
}
