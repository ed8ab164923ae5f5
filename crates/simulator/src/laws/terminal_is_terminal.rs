//! I7.

use std::collections::BTreeMap;

use super::{Broken, Law, View, Write, recorded};
use crate::objects;

pub(super) const SENTENCE: &str = "A recorded outcome never changes.";

/// Outcomes by the UID of their job.
#[derive(Default)]
pub(super) struct TerminalIsTerminal(BTreeMap<String, String>);

impl Law for TerminalIsTerminal {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.subresource != "status" {
            return Ok(());
        }
        for (resource, job) in objects::jobs(view.cluster) {
            let outcome = recorded(resource, job)
                .outcome
                .map(|outcome| format!("{:?}", outcome.verdict));
            let before = self.0.get(objects::uid(job));
            if before.is_some() && before != outcome.as_ref() {
                return Err(format!("it was {before:?} and is {outcome:?}"));
            }
            if let Some(outcome) = outcome {
                self.0.insert(objects::uid(job).to_owned(), outcome);
            }
        }
        Ok(())
    }
}
