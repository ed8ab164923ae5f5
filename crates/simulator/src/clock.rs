//! Simulated time: tokio's paused clock, as a time of day. A replica's clock may be wrong by an offset.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// When every simulation begins.
const START_SECS: i64 = 1_800_000_000;

thread_local! {
    static START: Cell<Option<Instant>> = const { Cell::new(None) };
    static OFFSET_MS: Cell<i64> = const { Cell::new(0) };
}

/// The simulation of this thread begins now.
pub(crate) fn begin() {
    START.set(Some(Instant::now()));
    OFFSET_MS.set(0);
}

/// Milliseconds since the beginning.
pub(crate) fn millis() -> u64 {
    let start = START.get().expect("a simulation has begun");
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The instant that lies so many milliseconds after the beginning.
pub(crate) fn instant(millis: u64) -> Instant {
    let start = START.get().expect("a simulation has begun");
    start + std::time::Duration::from_millis(millis)
}

/// The time of day, as whoever runs now believes it to be.
pub(crate) fn now() -> Timestamp {
    let passed = i64::try_from(millis()).unwrap_or(i64::MAX) + OFFSET_MS.get();
    Timestamp::from_second(START_SECS).expect("it is a time") + SignedDuration::from_millis(passed)
}

/// Letters for a name: simulated operators make theirs from the time, so that a seed always gives the same.
pub(crate) fn nonce() -> String {
    format!("n{}", millis())
}

/// A future whose clock is wrong by an offset in milliseconds.
pub(crate) struct WithClock<F> {
    pub(crate) future: F,
    pub(crate) offset: Arc<AtomicI64>,
}

impl<F: Future + Unpin> Future for WithClock<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        OFFSET_MS.set(this.offset.load(Ordering::Relaxed));
        let polled = Pin::new(&mut this.future).poll(context);
        OFFSET_MS.set(0);
        polled
    }
}
