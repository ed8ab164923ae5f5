//! Delays that double from failure to failure, and how long a watch waits after each failure in a row. Only time without failures counts as recovery:
//! kube's watcher reports the start of a list, which may then fail, as success.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(10);
/// A watch that held for this long has recovered.
const RECOVERED: Duration = Duration::from_secs(30);

/// Delays that double from failure to failure.
#[derive(Debug, Default)]
pub(crate) struct WatchBackoff {
    last: Option<(Duration, Instant)>,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let recent = self
            .last
            .filter(|(delay, at)| now - *at < *delay + RECOVERED);
        let delay = doubled(recent.map(|(delay, _)| delay), FIRST, MAX);
        self.last = Some((delay, now));
        Some(delay)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {}
}

/// The next delay of a series that doubles.
pub(crate) fn doubled(before: Option<Duration>, first: Duration, max: Duration) -> Duration {
    before.map_or(first, |delay| delay.saturating_mul(2).min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_are_retried_with_growing_delays() {
        let mut backoff = WatchBackoff::default();
        let delays: Vec<u128> = backoff
            .by_ref()
            .take(8)
            .map(|delay| delay.as_millis())
            .collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        tokio::time::advance(MAX + RECOVERED).await;
        assert_eq!(backoff.next(), Some(FIRST));
    }
}
