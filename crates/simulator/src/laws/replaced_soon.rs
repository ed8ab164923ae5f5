//! I28.

use std::collections::BTreeMap;

use super::{Broken, Law, View, Write};
use crate::job_view::JobView;
use crate::{clock, objects};

pub(super) const SENTENCE: &str = "A worker that a running job has lost is replaced within twenty seconds, or two minutes if its node is gone, with at most ten writes, if nothing else goes wrong.";

/// Losses that are not made up for.
#[derive(Default)]
pub(super) struct ReplacedSoon(BTreeMap<String, Loss>);

struct Loss {
    since: u64,
    /// Writes before it.
    writes: u32,
    /// Others deleted the worker, and it takes its time.
    is_slow: bool,
}

/// A worker that ends at once is not replaced before it is ten seconds old; the next one needs some to start.
const SOON_MS: u64 = 20_000;
/// The grace time and a minute of silence come before that if the node is gone.
const NODE_GONE_MS: u64 = 125_000;
const WRITES_MAX: u32 = 10;

impl Law for ReplacedSoon {
    fn after_report(&mut self, view: &View<'_>) -> Result<(), Broken> {
        let now = clock::millis();
        for job in view.jobs.iter().filter(|job| job.recovers()) {
            let runs = job.wants_its_pods() && has_running_launcher(view, job);
            if !runs || !view.weather.only_one_fault || is_complete(view, job) {
                self.0.remove(job.uid());
                continue;
            }
            // It was complete once: what starts for the first time is not lost.
            if !view.disturbed.contains(job.uid()) {
                continue;
            }
            let loss = self.0.entry(job.uid().to_owned()).or_insert(Loss {
                since: now,
                writes: view.writes,
                is_slow: false,
            });
            let mut workers = job.workers(view.cluster);
            loss.is_slow |= workers.any(|pod| objects::is_live(pod) && !objects::stays(pod));
            let limit = if loss.is_slow { NODE_GONE_MS } else { SOON_MS };
            if loss.since + limit < now {
                return Err(format!("{} ms, and a worker is missing", now - loss.since));
            }
            if view.writes > loss.writes + WRITES_MAX {
                return Err(format!("{} writes", view.writes - loss.writes));
            }
        }
        Ok(())
    }

    fn after_write(&mut self, view: &View<'_>, _: &Write<'_>) -> Result<(), Broken> {
        self.after_report(view)
    }
}

fn has_running_launcher(view: &View<'_>, job: &JobView) -> bool {
    let mut pods = job.pods(view.cluster);
    pods.any(|pod| objects::is_launcher(pod) && pod["status"]["phase"] == "Running")
}

fn worker_count(job: &JobView) -> usize {
    let lowered = job.lowered.as_ref();
    lowered.map_or(0, |job| job.worker_count() as usize)
}

fn is_complete(view: &View<'_>, job: &JobView) -> bool {
    let workers = job.workers(view.cluster);
    let running = workers.filter(|pod| pod["status"]["phase"] == "Running" && objects::stays(pod));
    running.count() >= worker_count(job)
}
