//! For how long the operator's only thread was kept from its other tasks, at the worst. Decides what
//! counts: the time by which a timer came late, less the time that the kernel gave to other
//! processes. Knows nothing of jobs.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

/// Seconds.
pub(crate) type Longest = Gauge<f64, AtomicU64>;

/// Much shorter than a block that anybody notices, and long enough to cost next to nothing.
const TICK: Duration = Duration::from_millis(10);

/// Keeps the longest block until it is dropped.
pub(crate) async fn measure(longest: Longest) {
    let processor = Processor::of_this_thread();
    loop {
        let (start, waited) = (Instant::now(), processor.waited());
        tokio::time::sleep(TICK).await;
        let late = start.elapsed().saturating_sub(TICK);
        let elsewhere = processor.waited().saturating_sub(waited);
        let blocked = late.saturating_sub(elsewhere).as_secs_f64();
        if blocked > longest.get() {
            longest.set(blocked);
        }
    }
}

/// What the kernel says of this thread. The runtime has one thread, so it stays the right one.
struct Processor {
    /// Missing where the kernel keeps no such account; then all lateness counts as ours.
    account: Option<File>,
}

impl Processor {
    fn of_this_thread() -> Self {
        let account = File::open("/proc/thread-self/schedstat").ok();
        Self { account }
    }

    /// For how long the thread could have run and another had its processor.
    fn waited(&self) -> Duration {
        let mut text = [0; 96];
        let length = self.account.as_ref().map(|file| file.read_at(&mut text, 0));
        let Some(Ok(length)) = length else {
            return Duration::ZERO;
        };
        let text = str::from_utf8(&text[..length]).unwrap_or_default();
        let nanos = text.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(nanos.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Duration = Duration::from_millis(120);

    #[tokio::test]
    async fn a_task_that_keeps_the_thread_is_found() {
        let longest = Longest::default();
        let measured = tokio::spawn(measure(longest.clone()));
        tokio::time::sleep(TICK * 2).await;
        std::thread::sleep(BLOCK);
        tokio::time::sleep(TICK * 2).await;
        // The block may have begun anywhere within a tick.
        let least = (BLOCK - TICK).as_secs_f64();
        assert!(longest.get() >= least, "{} s", longest.get());
        measured.abort();
    }

    #[tokio::test]
    async fn a_task_that_waits_blocks_nobody() {
        let longest = Longest::default();
        let measured = tokio::spawn(measure(longest.clone()));
        tokio::time::sleep(BLOCK).await;
        assert!(
            longest.get() < BLOCK.as_secs_f64() / 2.0,
            "{} s",
            longest.get()
        );
        measured.abort();
    }
}
