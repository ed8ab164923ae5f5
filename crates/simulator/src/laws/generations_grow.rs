//! I12.

use std::collections::BTreeMap;

use super::{Broken, Law, View, Write};

pub(super) const SENTENCE: &str =
    "The observed generation never exceeds the generation, and never goes back.";

/// Generations by the UID of their job.
#[derive(Default)]
pub(super) struct GenerationsGrow(BTreeMap<String, i64>);

impl Law for GenerationsGrow {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.subresource != "status" {
            return Ok(());
        }
        for job in view.jobs {
            let object = &job.object;
            let Some(observed) = object["status"]["observedGeneration"].as_i64() else {
                continue;
            };
            let generation = object["metadata"]["generation"].as_i64();
            let generation = generation.unwrap_or_default();
            let before = self.0.insert(job.uid().to_owned(), observed);
            if observed > generation || before.is_some_and(|before| observed < before) {
                return Err(format!("{observed} of {generation}, after {before:?}"));
            }
        }
        Ok(())
    }
}
