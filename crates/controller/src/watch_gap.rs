//! Since when a kind is neither listed nor watched. Decides when that is too long: what we know of the
//! kind stands still then, while the clock goes on, and nothing may be concluded from it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// API servers restart, and watches are renewed, in less.
const LONG: Duration = Duration::from_secs(10);

/// The time without a watch, if there is none now.
#[derive(Debug, Default)]
pub(crate) struct WatchGap(watch::Sender<Option<Instant>>);

impl WatchGap {
    /// Nothing is watched from now on, at the latest.
    pub(crate) fn begin(&self) {
        self.0.send_if_modified(|since| {
            let is_new = since.is_none();
            since.get_or_insert_with(Instant::now);
            is_new
        });
    }

    /// All is known again.
    pub(crate) fn end(&self) {
        self.0.send_if_modified(|since| since.take().is_some());
    }

    /// It lasts too long: only a new list shows what there is.
    pub(crate) fn is_long(&self) -> bool {
        is_long(&self.0.borrow())
    }

    /// Returns once it lasts too long.
    pub(crate) async fn long(&self) {
        let mut gap = self.0.subscribe();
        while !self.is_long() {
            let since = *gap.borrow_and_update();
            tokio::select! {
                biased;
                changed = gap.changed() => changed.expect("the sender lives as long as the gap"),
                () = sleep_until(since.unwrap_or_else(Instant::now) + LONG), if since.is_some() => {}
            }
        }
    }

    /// Returns once a gap that was too long is over.
    pub(crate) async fn over(&self) {
        let mut gap = self.0.subscribe();
        let over = gap.wait_for(|since| !is_long(since)).await;
        over.expect("the sender lives as long as the gap");
    }
}

fn is_long(since: &Option<Instant>) -> bool {
    since.is_some_and(|since| since.elapsed() >= LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn c15_only_a_gap_that_lasts_is_long() {
        let gap = WatchGap::default();
        let start = Instant::now();
        for _ in 0..5 {
            gap.begin();
            tokio::time::advance(LONG / 2).await;
            gap.begin();
            assert!(!gap.is_long());
            gap.end();
        }
        gap.begin();
        gap.long().await;
        assert_eq!(start.elapsed(), LONG / 2 * 5 + LONG);
        gap.end();
        gap.over().await;
    }
}
