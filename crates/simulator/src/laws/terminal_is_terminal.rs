//! I7.

use std::collections::BTreeMap;

use planner::Verdict;

use super::{Broken, Law, PROMPT_MS, View, Write};
use crate::{clock, objects};

pub(super) const SENTENCE: &str = "A recorded outcome never changes; and if no fault struck, the launcher of a job that failed is stopped within five seconds.";

/// Outcomes by the UID of their job, and when they were recorded.
#[derive(Default)]
pub(super) struct TerminalIsTerminal(BTreeMap<String, (Verdict, u64)>);

impl Law for TerminalIsTerminal {
    fn after_report(&mut self, view: &View<'_>) -> Result<(), Broken> {
        for job in view.jobs {
            let Some((Verdict::Failed { .. }, at)) = self.0.get(job.uid()) else {
                continue;
            };
            let late = at + PROMPT_MS <= clock::millis() && view.weather.is_quiet_since(*at);
            let mut stays = job.pods(view.cluster).filter(|pod| objects::stays(pod));
            let launcher = stays.find(|pod| objects::is_launcher(pod));
            if let Some(pod) = launcher.filter(|_| late && !job.outlives_launcher()) {
                return Err(format!("{} goes on", objects::name(pod)));
            }
        }
        Ok(())
    }

    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        self.after_report(view)?;
        if write.call.subresource != "status" {
            return Ok(());
        }
        for job in view.jobs {
            let outcome = job.recorded.outcome.as_ref();
            let outcome = outcome.map(|outcome| &outcome.verdict);
            let before = self.0.get(job.uid()).map(|(verdict, _)| verdict);
            if before.is_some() && before != outcome {
                return Err(format!("it was {before:?} and is {outcome:?}"));
            }
            if let Some(outcome) = outcome.filter(|_| before.is_none()) {
                let recorded = (outcome.clone(), clock::millis());
                self.0.insert(job.uid().to_owned(), recorded);
            }
        }
        Ok(())
    }
}
