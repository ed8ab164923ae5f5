//! I26.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Law, View, Write};
use crate::objects;

pub(super) const SENTENCE: &str = "Of a job that recovers, each lost worker is counted once, before the operator removes it, and none is counted that did not end; of other jobs, none is counted.";

/// UIDs of the workers that each job has counted.
#[derive(Default)]
pub(super) struct CountedFirst(BTreeMap<String, BTreeSet<String>>);

impl Law for CountedFirst {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        for job in view.jobs.iter().filter(|job| job.recovers()) {
            let counted = self.0.entry(job.uid().to_owned()).or_default();
            let replacements = &job.recorded.replacements;
            let (count, last) = (replacements.lost_workers as usize, &replacements.last);
            if count == counted.len() + 1 {
                let ended = view.kubelet.ended_workers.get(job.uid());
                let is_lost = |uid: &&String| ended.is_some_and(|ended| ended.contains(*uid));
                let Some(uid) = last.as_ref().filter(is_lost) else {
                    return Err(format!("{last:?} is counted, and it has not ended"));
                };
                if !counted.insert(uid.clone()) {
                    return Err(format!("{uid} is counted twice"));
                }
            } else if count != counted.len() {
                return Err(format!("{count} after {} were counted", counted.len()));
            }
        }
        let mut others = view.jobs.iter().filter(|job| job.never_recovers());
        if let Some(job) = others.find(|job| job.recorded.replacements.lost_workers > 0) {
            return Err(format!("{} does not recover, and counts", job.name()));
        }
        let call = write.call;
        let Some(pod) = write
            .before
            .filter(|_| call.plural == "pods" && call.rbac_verb() == "delete")
        else {
            return Ok(());
        };
        let mut jobs = view.jobs.iter();
        let job = jobs.find(|job| job.runs_and_recovers(pod));
        let is_gone = !pod["metadata"]["deletionTimestamp"].is_null();
        match job.and_then(|job| self.0.get(job.uid())) {
            Some(counted) if !is_gone && !counted.contains(objects::uid(pod)) => Err(format!(
                "{} is deleted and was not counted",
                objects::name(pod)
            )),
            _ => Ok(()),
        }
    }
}
