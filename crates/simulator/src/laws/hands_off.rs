//! I4.

use std::collections::BTreeSet;

use super::{Broken, Law, View, Write, contents};
use crate::{clock, objects};

pub(super) const SENTENCE: &str = "The operator changes and deletes only users' jobs and what a job controls; objects of others stay as they are.";

/// Objects of others that a delete of many reached, and nobody could help it.
#[derive(Default)]
pub(super) struct HandsOff(BTreeSet<String>);

/// A delete of many may have been decided before somebody gave a pod of theirs our labels.
const UNSEEN_MS: u64 = 5_000;

impl Law for HandsOff {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        let many = write.call.rbac_verb() == "deletecollection";
        for planted in &write.foreign.0 {
            let (group, plural) = &planted.kind;
            let mut objects = view.cluster.objects(group, plural);
            let now = objects.find(|object| objects::uid(object) == planted.uid);
            if now.is_some_and(|now| contents(now) == planted.contents) {
                continue;
            }
            let unseen = planted.at + UNSEEN_MS > clock::millis();
            if many && (view.weather.stale_views || unseen) {
                self.0.insert(planted.uid.clone());
            }
            if !self.0.contains(&planted.uid) {
                return Err(format!("{} reached an object of others", write.call.line()));
            }
        }
        let is_job = dialects::RESOURCES
            .iter()
            .any(|served| served.group == write.call.group);
        let before = write.before.filter(|_| !is_job);
        match before.is_some_and(|before| objects::controller(before).is_none()) {
            true => Err(format!("{} is nobody's", write.call.line())),
            false => Ok(()),
        }
    }
}
