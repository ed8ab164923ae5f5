//! Jobs to reconcile. Decides how events are batched: the first enqueues its job at once, those of the
//! next 10 ms form one batch. Unlike a debounce, no event delays another. A job with thousands of pods
//! rests a little longer: each pass looks at all of them, and their events would leave no time for
//! the jobs of others.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use futures::stream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::wire::ObjectKey;

/// How long a batch is collected.
const BATCH: Duration = Duration::from_millis(10);
/// How long a job rests for each of its pods: 100 ms for ten thousand, several times what a pass over
/// them takes.
const REST_EACH: Duration = Duration::from_micros(10);

/// A set of jobs for each subscriber: one controller per resource.
#[derive(Debug)]
pub(crate) struct PendingJobs {
    subscribers: Vec<Subscriber>,
    /// Until when a job rests. Only jobs with many pods are here, and only until their next batch.
    resting: Mutex<HashMap<ObjectKey, Instant>>,
}

#[derive(Debug, Default)]
struct Subscriber {
    /// Before it subscribes, nothing is kept for it; it may never do so.
    listens: AtomicBool,
    /// In order, so that the same events lead to the same passes.
    jobs: Mutex<BTreeSet<ObjectKey>>,
    news: Notify,
}

impl PendingJobs {
    /// For this many subscribers.
    pub(crate) fn new(subscribers: usize) -> Self {
        Self {
            subscribers: (0..subscribers).map(|_| Subscriber::default()).collect(),
            resting: Mutex::default(),
        }
    }

    /// A pass looks at a job with so many pods. Events are enough for a while.
    pub(crate) fn rest(&self, job: &ObjectKey, pods: usize) {
        let rest = REST_EACH * u32::try_from(pods).unwrap_or(u32::MAX);
        if rest > BATCH {
            lock(&self.resting).insert(job.clone(), Instant::now() + rest);
        }
    }

    /// Jobs of a subscriber that do not rest; if there are none, when the first has rested.
    fn take(&self, subscriber: &Subscriber) -> Result<Vec<ObjectKey>, Option<Instant>> {
        let (now, mut resting) = (Instant::now(), lock(&self.resting));
        resting.retain(|_, until| *until > now);
        let mut jobs = lock(&subscriber.jobs);
        let ready: Vec<ObjectKey> = {
            let rests = |job: &ObjectKey| resting.contains_key(job);
            jobs.extract_if(.., |job| !rests(job)).collect()
        };
        match ready.is_empty() {
            true => Err(jobs
                .iter()
                .filter_map(|job| resting.get(job))
                .min()
                .copied()),
            false => Ok(ready),
        }
    }

    /// Enqueues a job for every subscriber.
    pub(crate) fn enqueue(&self, job: &ObjectKey) {
        let listens = |subscriber: &&Subscriber| subscriber.listens.load(Ordering::Acquire);
        for subscriber in self.subscribers.iter().filter(listens) {
            lock(&subscriber.jobs).insert(job.clone());
            subscriber.news.notify_one();
        }
    }

    /// Batches of jobs from now on, for one subscriber.
    pub(crate) fn subscribe(
        self: Arc<Self>,
        subscriber: usize,
    ) -> impl Stream<Item = Vec<ObjectKey>> {
        self.subscribers[subscriber]
            .listens
            .store(true, Ordering::Release);
        stream::unfold((self, false), move |(pending, pause)| async move {
            if pause {
                tokio::time::sleep(BATCH).await;
            }
            let own = &pending.subscribers[subscriber];
            let jobs = loop {
                match pending.take(own) {
                    Ok(jobs) => break jobs,
                    Err(None) => own.news.notified().await,
                    Err(Some(rested)) => tokio::select! {
                        biased;
                        () = own.news.notified() => {}
                        () = sleep_until(rested) => {}
                    },
                }
            };
            Some((jobs, (pending, true)))
        })
    }
}

fn lock<T>(jobs: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    fn job(name: &str) -> ObjectKey {
        ObjectKey::new("team-a", name)
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_before_a_subscription() {
        let pending = Arc::new(PendingJobs::new(1));
        pending.enqueue(&job("before"));
        let mut events = Box::pin(Arc::clone(&pending).subscribe(0));
        pending.enqueue(&job("after"));
        assert_eq!(events.next().await, Some(vec![job("after")]));
    }

    #[tokio::test(start_paused = true)]
    async fn c03_a_job_of_many_pods_rests_and_others_do_not_wait_for_it() {
        let pending = Arc::new(PendingJobs::new(1));
        let mut events = Box::pin(Arc::clone(&pending).subscribe(0));
        let start = Instant::now();
        pending.rest(&job("large"), 10_000);
        pending.rest(&job("small"), 2);
        pending.enqueue(&job("large"));
        pending.enqueue(&job("small"));
        assert_eq!(events.next().await, Some(vec![job("small")]));
        assert_eq!(start.elapsed(), Duration::ZERO);
        pending.enqueue(&job("small"));
        assert_eq!(events.next().await, Some(vec![job("small")]));
        assert_eq!(start.elapsed(), BATCH);
        assert_eq!(events.next().await, Some(vec![job("large")]));
        assert_eq!(start.elapsed(), Duration::from_millis(100));
        assert!(
            lock(&pending.resting).is_empty(),
            "nothing is left of a rest"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_one_batch_and_nothing_is_lost() {
        let pending = Arc::new(PendingJobs::new(2));
        let mut first = Box::pin(Arc::clone(&pending).subscribe(0));
        let mut second = Box::pin(Arc::clone(&pending).subscribe(1));
        for _ in 0..100 {
            pending.enqueue(&job("ring"));
        }
        assert_eq!(first.next().await, Some(vec![job("ring")]));
        pending.enqueue(&job("ring"));
        pending.enqueue(&job("ring"));
        assert_eq!(first.next().await, Some(vec![job("ring")]));
        assert_eq!(second.next().await, Some(vec![job("ring")]));
    }
}
