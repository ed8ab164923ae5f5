//! I3.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::job::LauncherStart;
use serde_json::Value;

use super::{Broken, Law, View, Write, lowered};
use crate::objects;

pub(super) const SENTENCE: &str = "The launcher of a job that waits for its workers is started only after all of them were ready.";

/// Jobs whose workers were all ready at one moment; since the last suspension, where nobody can have
/// missed that.
#[derive(Default)]
pub(super) struct GateHolds {
    /// The fewest workers that each job ever asked for.
    fewest: BTreeMap<String, usize>,
    ever: BTreeSet<String>,
    since_suspension: BTreeSet<String>,
}

impl Law for GateHolds {
    fn after_report(&mut self, view: &View<'_>) {
        for (resource, job) in objects::jobs(view.cluster) {
            let Some(lowered) = lowered(resource, job) else {
                continue;
            };
            let uid = objects::uid(job);
            if lowered.lifecycle.suspended {
                self.since_suspension.remove(uid);
                continue;
            }
            // A pass goes on with the number that it began with.
            let count = lowered.worker_count() as usize;
            let fewest = self.fewest.entry(uid.to_owned()).or_insert(count);
            *fewest = count.min(*fewest);
            if lowered.launcher.start == LauncherStart::WhenWorkersReady
                && ready(view, uid) >= *fewest
            {
                self.ever.insert(uid.to_owned());
                self.since_suspension.insert(uid.to_owned());
            }
        }
    }

    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        // What users do is seen here.
        self.after_report(view);
        let Some(owner) = started(write) else {
            return Ok(());
        };
        let mut jobs = objects::jobs(view.cluster);
        let Some((resource, job)) = jobs.find(|(_, job)| objects::uid(job) == owner) else {
            return Ok(());
        };
        let Some(job) = lowered(resource, job) else {
            return Ok(());
        };
        let waits = job.launcher.start == LauncherStart::WhenWorkersReady;
        let gathered = match write.weather.stale_views {
            true => self.ever.contains(owner),
            // A user may suspend the job while the request is on its way.
            false => self.since_suspension.contains(owner) || job.lifecycle.suspended,
        };
        match waits && !gathered {
            true => Err(format!("{} came too early", write.call.line())),
            false => Ok(()),
        }
    }
}

/// The job whose launcher a write starts.
fn started<'a>(write: &Write<'a>) -> Option<&'a str> {
    let starts = match (write.call.rbac_verb(), write.call.plural.as_str()) {
        ("create", "jobs") => write.body["spec"]["suspend"] != true,
        ("create", "pods") => objects::is_launcher(write.body),
        ("patch", "jobs") => write.body["spec"]["suspend"] == false,
        _ => false,
    };
    let object = write.before.unwrap_or(write.body);
    objects::controller(object).filter(|_| starts)
}

fn ready(view: &View<'_>, job: &str) -> usize {
    let workers = objects::pods(view.cluster).filter(|pod| !objects::is_launcher(pod));
    let workers = workers.filter(|pod: &&Arc<Value>| objects::job_uid(pod) == job);
    workers.filter(|pod| objects::is_ready(pod)).count()
}
