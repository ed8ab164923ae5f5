//! Which jobs to look at again. Decides how events are gathered: the first one counts at once,
//! those that follow within a moment count together. No event is put off by the next.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use futures::stream;
use tokio::sync::Notify;

use crate::wire::ObjectKey;

/// How long the events that follow one are gathered.
const MOMENT: Duration = Duration::from_millis(10);

/// A set of jobs for each listener.
#[derive(Debug)]
pub(crate) struct PendingJobs {
    listeners: Vec<Listener>,
}

#[derive(Debug, Default)]
struct Listener {
    /// Nothing is kept for who does not listen yet, and may never.
    listens: AtomicBool,
    jobs: Mutex<HashSet<ObjectKey>>,
    news: Notify,
}

impl PendingJobs {
    /// For so many listeners.
    pub(crate) fn new(listeners: usize) -> Self {
        Self {
            listeners: (0..listeners).map(|_| Listener::default()).collect(),
        }
    }

    /// Tells everyone who listens.
    pub(crate) fn enqueue(&self, job: &ObjectKey) {
        let listens = |listener: &&Listener| listener.listens.load(Ordering::Acquire);
        for listener in self.listeners.iter().filter(listens) {
            lock(&listener.jobs).insert(job.clone());
            listener.news.notify_one();
        }
    }

    /// Jobs to look at from now on, for one listener.
    pub(crate) fn subscribe(
        self: Arc<Self>,
        listener: usize,
    ) -> impl Stream<Item = Vec<ObjectKey>> {
        self.listeners[listener]
            .listens
            .store(true, Ordering::Release);
        stream::unfold((self, false), move |(pending, pause)| async move {
            if pause {
                tokio::time::sleep(MOMENT).await;
            }
            let own = &pending.listeners[listener];
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
    async fn nothing_is_kept_for_who_does_not_listen() {
        let pending = Arc::new(PendingJobs::new(1));
        pending.enqueue(&job("before"));
        let mut events = Box::pin(Arc::clone(&pending).subscribe(0));
        pending.enqueue(&job("after"));
        assert_eq!(events.next().await, Some(vec![job("after")]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_one_look_and_nothing_is_lost() {
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
