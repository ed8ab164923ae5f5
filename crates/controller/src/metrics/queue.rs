//! Jobs that wait for a pass, and for how long they did. Decides what waiting is: from the first event until the
//! pass begins. A job that its own pass asked to see again later does not wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

use super::Names;
use crate::wire::ObjectKey;

/// The jobs that wait for one controller. Its clones are the same queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    since: Arc<Mutex<HashMap<ObjectKey, Instant>>>,
    depth: Gauge,
    seconds: Histogram,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            since: Arc::default(),
            depth: Gauge::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
        }
    }
}

impl Queue {
    pub(super) fn register(&self, names: &mut Names<'_>) {
        names.add(
            "muster_work_queue_depth",
            "Jobs that wait for their next reconcile",
            &self.depth,
        );
        names.add(
            "muster_work_queue_seconds",
            "How long jobs waited for a reconcile after something changed",
            &self.seconds,
        );
    }

    /// A queue of other jobs, counted with these.
    pub(super) fn another(&self) -> Self {
        Self {
            since: Arc::default(),
            ..self.clone()
        }
    }

    /// Something changed that concerns this job.
    pub(crate) fn enter(&self, job: &ObjectKey) {
        let mut since = self.since();
        if !since.contains_key(job) {
            since.insert(job.clone(), Instant::now());
            self.depth.inc();
        }
    }

    /// Its pass begins.
    pub(crate) fn leave(&self, job: &ObjectKey) {
        if let Some(since) = self.drop(job) {
            self.seconds.observe(since.elapsed().as_secs_f64());
        }
    }

    /// There is no such job.
    pub(crate) fn drop(&self, job: &ObjectKey) -> Option<Instant> {
        let since = self.since().remove(job)?;
        self.depth.dec();
        Some(since)
    }

    fn since(&self) -> MutexGuard<'_, HashMap<ObjectKey, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::{Format, Metrics};

    #[tokio::test(start_paused = true)]
    async fn a_job_waits_from_its_first_event_until_its_pass() {
        let metrics = Metrics::new();
        let (one, other) = (metrics.queue(), metrics.queue());
        let job = ObjectKey::new("team-a", "ring");
        let has = |line: &str| {
            let text = metrics.text(Format::Classic);
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        };
        one.enter(&job);
        tokio::time::advance(Duration::from_secs(3)).await;
        one.enter(&job);
        other.enter(&job);
        has("muster_work_queue_depth 2");
        one.leave(&job);
        one.leave(&job);
        other.drop(&job);
        has("muster_work_queue_depth 0");
        has("muster_work_queue_seconds_count 1");
        has("muster_work_queue_seconds_sum 3.0");
    }
}
