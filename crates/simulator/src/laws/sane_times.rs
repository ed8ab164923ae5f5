//! I11.

use std::collections::BTreeMap;

use super::{Broken, Law, View, Write, recorded};
use crate::objects;

pub(super) const SENTENCE: &str = "The time at which a job ended never changes.";

/// Times by the UID of their job.
#[derive(Default)]
pub(super) struct SaneTimes(BTreeMap<String, String>);

impl Law for SaneTimes {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.subresource != "status" {
            return Ok(());
        }
        for (resource, job) in objects::jobs(view.cluster) {
            let Some(outcome) = recorded(resource, job).outcome else {
                continue;
            };
            let ended = outcome.at.to_string();
            let before = self.0.insert(objects::uid(job).to_owned(), ended.clone());
            if before.as_ref().is_some_and(|before| *before != ended) {
                return Err(format!("it ended at {before:?} and at {ended}"));
            }
        }
        Ok(())
    }
}
