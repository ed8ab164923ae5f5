//! I6.

use super::{Broken, Law, View, Write};

pub(super) const SENTENCE: &str = "Every write is to the namespace of a job.";

#[derive(Default)]
pub(super) struct OwnNamespace;

impl Law for OwnNamespace {
    fn after_write(&mut self, _: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        match write.call.namespace.as_str() {
            "default" => Ok(()),
            other => Err(format!("{} is to {other:?}", write.call.line())),
        }
    }
}
