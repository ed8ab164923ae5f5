//! I3.

use std::collections::{BTreeMap, BTreeSet};

use planner::job::LauncherStart;

use super::{Broken, Law, View, Write};
use crate::job_view::JobView;
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
    fn after_report(&mut self, view: &View<'_>) -> Result<(), Broken> {
        for job in view.jobs {
            let Some(lowered) = &job.lowered else {
                continue;
            };
            let uid = job.uid();
            // A pass goes on with the number that it began with.
            let count = lowered.worker_count() as usize;
            let fewest = self.fewest.entry(uid.to_owned()).or_insert(count);
            *fewest = count.min(*fewest);
            let waits = lowered.launcher.start == LauncherStart::WhenWorkersReady;
            let gathered = waits && ready(view, job) >= *fewest;
            // Workers become ready too while nobody who could stop them has seen the suspension.
            if gathered {
                self.ever.insert(uid.to_owned());
            }
            if lowered.lifecycle.suspended {
                self.since_suspension.remove(uid);
            } else if gathered {
                self.since_suspension.insert(uid.to_owned());
            }
        }
        Ok(())
    }

    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        // What users do is seen here.
        self.after_report(view)?;
        let Some(owner) = started(write) else {
            return Ok(());
        };
        let job = view.jobs.iter().find(|job| job.uid() == owner);
        let Some(job) = job.and_then(|job| job.lowered.as_ref()) else {
            return Ok(());
        };
        let waits = job.launcher.start == LauncherStart::WhenWorkersReady;
        let gathered = match view.weather.stale_views {
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

fn ready(view: &View<'_>, job: &JobView) -> usize {
    let workers = job.workers(view.cluster);
    workers
        .filter(|pod| objects::is_ready(pod) && objects::stays(pod))
        .count()
}
