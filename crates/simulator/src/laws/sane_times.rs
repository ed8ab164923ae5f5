//! I11.

use std::collections::BTreeMap;

use super::{Broken, Law, View, Write};

pub(super) const SENTENCE: &str =
    "The time at which a job ended never changes, and is not before its start.";

/// Times by the UID of their job.
#[derive(Default)]
pub(super) struct SaneTimes(BTreeMap<String, String>);

impl Law for SaneTimes {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.subresource != "status" {
            return Ok(());
        }
        for job in view.jobs {
            let Some(outcome) = &job.recorded.outcome else {
                continue;
            };
            let started = job.recorded.started_at;
            if started.is_some_and(|at| at > outcome.at) && !view.weather.wrong_clocks {
                return Err(format!(
                    "it started at {started:?} and ended at {}",
                    outcome.at
                ));
            }
            let ended = outcome.at.to_string();
            let before = self.0.insert(job.uid().to_owned(), ended.clone());
            if before.as_ref().is_some_and(|before| *before != ended) {
                return Err(format!("it ended at {before:?} and at {ended}"));
            }
        }
        Ok(())
    }
}
