//! Jobs to reconcile. Decides how events are batched: the first enqueues its job at once, those of the
//! next 10 ms form one batch. Unlike a debounce, no event delays another.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use futures::stream;
use tokio::sync::Notify;

use crate::wire::ObjectKey;

/// How long a batch is collected.
const BATCH: Duration = Duration::from_millis(10);

/// A set of jobs for each subscriber: one controller per resource.
#[derive(Debug)]
pub(crate) struct PendingJobs {
    subscribers: Vec<Subscriber>,
}

#[derive(Debug, Default)]
struct Subscriber {
    /// Before it subscribes, nothing is kept for it; it may never do so.
    listens: AtomicBool,
    jobs: Mutex<HashSet<ObjectKey>>,
    news: Notify,
}

impl PendingJobs {
    /// For this many subscribers.
    pub(crate) fn new(subscribers: usize) -> Self {
        Self {
            subscribers: (0..subscribers).map(|_| Subscriber::default()).collect(),
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
                own.news.notified().await;
                let jobs: Vec<ObjectKey> = lock(&own.jobs).drain().collect();
                if !jobs.is_empty() {
                    break jobs;
                }
            };
            Some((jobs, (pending, true)))
        })
    }
}

fn lock(jobs: &Mutex<HashSet<ObjectKey>>) -> std::sync::MutexGuard<'_, HashSet<ObjectKey>> {
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
