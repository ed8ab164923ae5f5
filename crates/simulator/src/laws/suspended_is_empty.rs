//! I15.

use std::collections::BTreeMap;

use super::{Broken, Law, PROMPT_MS, Rest, View, Write};
use crate::{clock, objects};

pub(super) const SENTENCE: &str = "A suspended job has no pod that may run: once the weather is calm, and five seconds after the suspension if no fault struck.";

/// Since when jobs are suspended, by their UID.
#[derive(Default)]
pub(super) struct SuspendedIsEmpty(BTreeMap<String, u64>);

impl Law for SuspendedIsEmpty {
    fn after_report(&mut self, view: &View<'_>) -> Result<(), Broken> {
        let now = clock::millis();
        for job in view.jobs {
            if job.is_over() || !job.is_suspended() {
                self.0.remove(job.uid());
                continue;
            }
            let since = *self.0.entry(job.uid().to_owned()).or_insert(now);
            if since + PROMPT_MS > now || !view.weather.is_quiet_since(since) {
                continue;
            }
            let mut pods = job.pods(view.cluster);
            if let Some(pod) = pods.find(|pod| objects::stays(pod)) {
                let name = objects::name(pod);
                return Err(format!("{name} stays {} ms after", now - since));
            }
        }
        Ok(())
    }

    fn after_write(&mut self, view: &View<'_>, _: &Write<'_>) -> Result<(), Broken> {
        self.after_report(view)
    }

    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        for job in view.jobs {
            if job.is_over() || !job.is_suspended() {
                continue;
            }
            let mut pods = job.pods(view.cluster);
            if let Some(pod) = pods.find(|pod| objects::is_live(pod)) {
                return Err(format!("{} is left", objects::name(pod)));
            }
        }
        Ok(())
    }
}
