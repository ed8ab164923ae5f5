//! What an operator runs on: it can be put to sleep, and its clock can be wrong. Knows nothing of what runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;

use crate::clock::WithClock;

/// What outlives the processes of a replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// Milliseconds by which its clock is wrong.
    pub(crate) offset: Arc<AtomicI64>,
    sleep: Arc<Sleep>,
}

#[derive(Debug, Default)]
struct Sleep {
    asleep: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Machine {
    /// Its process runs no more until it is woken.
    pub(crate) fn sleep(&self) {
        self.sleep.asleep.store(true, Ordering::Relaxed);
    }

    /// A process on it.
    pub(crate) fn run(
        &self,
        process: BoxFuture<'static, ()>,
    ) -> impl Future<Output = ()> + Send + use<> {
        Sleeper {
            future: WithClock {
                future: process,
                offset: Arc::clone(&self.offset),
            },
            sleep: Arc::clone(&self.sleep),
        }
    }

    /// Its process goes on.
    pub(crate) fn wake(&self) {
        self.sleep.asleep.store(false, Ordering::Relaxed);
        let mut waker = self
            .sleep
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }
}

/// A future that is not polled while it sleeps.
struct Sleeper<F> {
    future: F,
    sleep: Arc<Sleep>,
}

impl<F: Future + Unpin> Future for Sleeper<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if this.sleep.asleep.load(Ordering::Relaxed) {
            let mut waker = this
                .sleep
                .waker
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut this.future).poll(context)
    }
}
