//! I17.

use super::{Broken, Law, Rest, View, Write};
use crate::objects;

pub(super) const SENTENCE: &str =
    "The operator sets no finalizer, and nothing that is being deleted stays.";

#[derive(Default)]
pub(super) struct NoFinalizers;

impl Law for NoFinalizers {
    fn after_write(&mut self, _: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        match &write.body["metadata"]["finalizers"] {
            serde_json::Value::Array(names) if !names.is_empty() => {
                Err(format!("{} sets {names:?}", write.call.line()))
            }
            _ => Ok(()),
        }
    }

    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        let children = objects::CHILDREN.iter();
        let children = children.flat_map(|(group, plural)| view.cluster.objects(group, plural));
        let jobs = view.jobs.iter().map(|job| &job.object);
        let mut all = children.chain(jobs);
        match all.find(|one| !one["metadata"]["deletionTimestamp"].is_null()) {
            Some(object) => Err(format!("{} is still being deleted", objects::name(object))),
            None => Ok(()),
        }
    }
}
