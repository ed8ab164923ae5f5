//! Which job a replica reconciles next: the part of kube-rs's controller that the simulator replaces. A
//! job runs once at a time; what is enqueued while it runs, runs afterwards; of two times the earlier
//! counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controller::stepwise::{JobRef, PassEnd, Stepwise};
use futures::future::{BoxFuture, poll_fn};
use futures::task::Poll;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Passes that one replica runs at once.
const CONCURRENCY: usize = 4;
/// A replica that has nothing to do looks again after this long.
const IDLE: Duration = Duration::from_secs(3600);

/// Jobs of one replica.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    due: Mutex<BTreeMap<JobRef, Instant>>,
    news: Notify,
}

impl Queue {
    /// The job must be reconciled now.
    pub(crate) fn enqueue(&self, job: JobRef) {
        self.enqueue_at(job, Instant::now());
        self.news.notify_one();
    }

    fn enqueue_at(&self, job: JobRef, at: Instant) {
        let mut due = self.lock();
        let known = due.entry(job).or_insert(at);
        *known = at.min(*known);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobRef, Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, running: &BTreeSet<JobRef>) -> Option<JobRef> {
        let (now, mut due) = (Instant::now(), self.lock());
        let free = due.iter().filter(|(job, _)| !running.contains(*job));
        let first = free
            .filter(|(_, at)| **at <= now)
            .min_by_key(|(_, at)| **at);
        let job = first.map(|(job, _)| job.clone())?;
        due.remove(&job);
        Some(job)
    }

    fn next_due(&self, running: &BTreeSet<JobRef>) -> Option<Instant> {
        let due = self.lock();
        let free = due.iter().filter(|(job, _)| !running.contains(*job));
        free.map(|(_, at)| *at).min()
    }
}

/// Reconciles the jobs of a queue, without end. Says how each pass ended.
pub(crate) async fn control(
    operator: Arc<Stepwise>,
    queue: Arc<Queue>,
    ended: impl Fn(&JobRef, &PassEnd),
) {
    let mut passes = Passes::default();
    let mut running = BTreeSet::new();
    loop {
        while running.len() < CONCURRENCY
            && let Some(job) = queue.take(&running)
        {
            // A child may outlive its job.
            if let Some(pass) = operator.pass(&job) {
                running.insert(job.clone());
                passes.0.push((job, pass));
            }
        }
        let idle = Instant::now() + IDLE;
        let next = match running.len() < CONCURRENCY {
            true => queue.next_due(&running).unwrap_or(idle),
            false => idle,
        };
        tokio::select! {
            biased;
            (job, end) = passes.next() => {
                ended(&job, &end);
                running.remove(&job);
                if let Some(after) = end.requeue_after {
                    queue.enqueue_at(job, Instant::now() + after);
                }
            }
            () = queue.news.notified() => {}
            () = sleep_until(next) => {}
        }
    }
}

/// Passes that run. They go on in the order in which they began, and not in that of their waking, which chance
/// decides where several wait for the same news.
#[derive(Default)]
struct Passes(Vec<(JobRef, BoxFuture<'static, PassEnd>)>);

impl Passes {
    /// The next that ends.
    async fn next(&mut self) -> (JobRef, PassEnd) {
        poll_fn(|context| {
            for index in 0..self.0.len() {
                if let Poll::Ready(end) = self.0[index].1.as_mut().poll(context) {
                    let (job, _) = self.0.remove(index);
                    return Poll::Ready((job, end));
                }
            }
            Poll::Pending
        })
        .await
    }
}
