//! Whose requests are sent next when jobs have many, or large ones. Decides how many requests of large
//! jobs run at once, over all jobs, with how many bytes, and in which order; a job with little to do
//! never waits here, and while it has something to do, the others take less of the API server. Knows
//! nothing of what is requested.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// A job that has at most this many requests to send is small, if none is larger than this.
const SMALL: usize = 64;
const SMALL_BYTES: usize = 64 << 10;
/// Requests of large jobs that run at once, over all jobs.
const LARGE_MAX: usize = 32;
/// The same while a small job has something to do: most of its requests wait for the one before, so
/// each must be answered quickly. Each new pod of a large job also causes requests of others.
const LARGE_BESIDE_SMALL_MAX: usize = 2;
/// Bytes of bodies of large jobs that are in memory at once. Each is there some five times while its
/// request runs: as it is sent, to be sent again, and as the answer.
const LARGE_BYTES_MAX: usize = 2 << 20;
/// A small job that sent something may have more to do for this long. It waits for its pods meanwhile,
/// and on a busy cluster also for the answers.
const SMALL_LASTS: Duration = Duration::from_secs(2);
/// Of so many turns, one goes to who has waited longest: a large job goes on however many smaller
/// ones come.
const OLDEST_EVERY: u64 = 4;

/// Turns of all jobs.
#[derive(Debug, Default)]
pub(crate) struct FairTurns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    running_bytes: usize,
    /// By how much its job has left, and then by when it came.
    waiting: BTreeMap<(usize, u64), Waiting>,
    arrived: u64,
    given: u64,
    small_until: Option<Instant>,
}

/// Somebody waits for a turn.
#[derive(Debug)]
struct Waiting {
    bytes: usize,
    give: oneshot::Sender<Turn>,
}

/// A request may be sent while this lives.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Of a small job, nobody.
    counted_by: Option<Arc<FairTurns>>,
    bytes: usize,
}

impl FairTurns {
    /// Returns when a request of so many bytes may be sent, of a job that has `left` of them.
    pub(crate) async fn take(self: &Arc<Self>, left: usize, bytes: usize) -> Turn {
        if left <= SMALL && bytes <= SMALL_BYTES {
            self.lock().small_until = Some(Instant::now() + SMALL_LASTS);
            return Turn {
                counted_by: None,
                bytes,
            };
        }
        let (give, turn) = oneshot::channel();
        {
            let mut state = self.lock();
            state.arrived += 1;
            let key = (left, state.arrived);
            state.waiting.insert(key, Waiting { bytes, give });
        }
        self.give();
        turn.await
            .expect("a turn is given to everybody who waits for one")
    }

    /// Gives as many turns as there may be.
    fn give(self: &Arc<Self>) {
        loop {
            let next = self.lock().next();
            let Some(Waiting { bytes, give }) = next else {
                return;
            };
            let turn = Turn {
                counted_by: Some(Arc::clone(self)),
                bytes,
            };
            // Whoever waited may have been cancelled.
            if let Err(mut turn) = give.send(turn) {
                turn.counted_by = None;
                self.lock().end(bytes);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Who has the next turn, if there is one now.
    fn next(&mut self) -> Option<Waiting> {
        self.waiting.retain(|_, waiting| !waiting.give.is_closed());
        let beside_small = self.small_until.is_some_and(|until| Instant::now() < until);
        let max = match beside_small {
            true => LARGE_BESIDE_SMALL_MAX,
            false => LARGE_MAX,
        };
        if self.running >= max {
            return None;
        }
        let fits = |(_, waiting): &(_, &Waiting)| {
            self.running == 0 || self.running_bytes + waiting.bytes <= LARGE_BYTES_MAX
        };
        let by_size = || self.waiting.iter().find(fits);
        // If there is no room for it, nobody else takes the room.
        let by_age = || {
            let oldest = self.waiting.iter().min_by_key(|((_, came), _)| *came);
            oldest.filter(fits)
        };
        let (key, _) = match (self.given + 1) % OLDEST_EVERY {
            0 => by_age(),
            _ => by_size(),
        }?;
        let key = *key;
        let next = self.waiting.remove(&key)?;
        (self.given, self.running) = (self.given + 1, self.running + 1);
        self.running_bytes += next.bytes;
        Some(next)
    }

    /// A request of so many bytes has ended.
    fn end(&mut self, bytes: usize) {
        self.running -= 1;
        self.running_bytes -= bytes;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.counted_by.take() {
            turns.lock().end(self.bytes);
            turns.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::*;

    /// A request of an ordinary pod.
    const BYTES: usize = 2 << 10;

    fn waiting(turns: &Arc<FairTurns>, left: usize) -> BoxFuture<'static, Turn> {
        waiting_with(turns, left, BYTES)
    }

    fn waiting_with(turns: &Arc<FairTurns>, left: usize, bytes: usize) -> BoxFuture<'static, Turn> {
        let turns = Arc::clone(turns);
        async move { turns.take(left, bytes).await }.boxed()
    }

    /// So many turns of a job that has many more to take.
    fn busy(turns: &Arc<FairTurns>, count: usize) -> Vec<Turn> {
        let taken = (0..count).map(|_| waiting(turns, 9_000).now_or_never());
        taken.map(|turn| turn.expect("there is room")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn c03_large_jobs_share_a_fixed_number_of_requests() {
        let turns = Arc::new(FairTurns::default());
        let mut running = busy(&turns, LARGE_MAX);
        let mut next = waiting(&turns, 9_000);
        assert!((&mut next).now_or_never().is_none());
        running.pop();
        assert!(next.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_job_never_waits_and_the_others_make_room() {
        let turns = Arc::new(FairTurns::default());
        let mut running = busy(&turns, LARGE_MAX);
        assert!(turns.take(2, BYTES).now_or_never().is_some());
        let mut next = waiting(&turns, 9_000);
        assert!((&mut next).now_or_never().is_none());
        running.truncate(LARGE_BESIDE_SMALL_MAX);
        assert!(
            (&mut next).now_or_never().is_none(),
            "no more beside the small one"
        );

        tokio::time::advance(SMALL_LASTS).await;
        running.pop();
        assert!(
            next.now_or_never().is_some(),
            "the small one has nothing more to do"
        );
        let rest = LARGE_MAX - running.len();
        assert_eq!(busy(&turns, rest).len(), rest);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_least_left_comes_first_but_nobody_waits_for_ever() {
        let turns = Arc::new(FairTurns::default());
        let mut running = busy(&turns, LARGE_MAX);
        let mut large = waiting(&turns, 10_000);
        assert!((&mut large).now_or_never().is_none());
        let mut passed = 0;
        loop {
            let mut smaller = waiting(&turns, 100);
            assert!((&mut smaller).now_or_never().is_none());
            running.pop();
            let (first, second) = ((&mut smaller).now_or_never(), (&mut large).now_or_never());
            if second.is_some() {
                break;
            }
            running.push(first.expect("the smaller one has its turn"));
            passed += 1;
        }
        assert!((1..OLDEST_EVERY).contains(&passed), "{passed}");
    }

    #[tokio::test(start_paused = true)]
    async fn s01a_large_bodies_are_few_at_once_however_few_a_job_has() {
        let turns = Arc::new(FairTurns::default());
        let large = || waiting_with(&turns, 2, 1 << 20);
        let mut running: Vec<_> = (0..2).map(|_| large().now_or_never()).collect();
        assert!(running.iter().all(Option::is_some));
        let mut next = large();
        assert!((&mut next).now_or_never().is_none(), "two fill the room");
        running.pop();
        assert!(next.now_or_never().is_some());
        drop(running);
        assert_eq!(turns.lock().running_bytes, 0);

        let turns = Arc::new(FairTurns::default());
        let larger_than_any = waiting_with(&turns, 2, 2 * LARGE_BYTES_MAX);
        let held = larger_than_any.now_or_never();
        assert!(held.is_some(), "alone it may");
        let mut other = waiting_with(&turns, 2, SMALL_BYTES + 1);
        assert!((&mut other).now_or_never().is_none());
        drop(held);
        assert!(other.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn s01a_what_fits_passes_what_does_not_until_that_is_the_oldest() {
        let turns = Arc::new(FairTurns::default());
        let first = waiting_with(&turns, 100, LARGE_BYTES_MAX - BYTES).now_or_never();
        let mut large = waiting_with(&turns, 100, LARGE_BYTES_MAX);
        assert!((&mut large).now_or_never().is_none());
        let passes = || waiting(&turns, 9_000).now_or_never().is_some();
        assert!(passes() && passes(), "there is room for a small body");
        assert!(!passes(), "it is the turn of the oldest");
        drop(first);
        assert!(large.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn c03_no_room_is_kept_for_who_waits_no_more() {
        let turns = Arc::new(FairTurns::default());
        let _first = waiting_with(&turns, 100, LARGE_BYTES_MAX - BYTES).now_or_never();
        let large = waiting_with(&turns, 100, LARGE_BYTES_MAX).now_or_never();
        assert!(large.is_none(), "it was cancelled while it waited");
        let passes = || waiting(&turns, 9_000).now_or_never().is_some();
        assert!(passes() && passes() && passes() && passes());
        assert!(turns.lock().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_nobody_waits_for_any_more_goes_to_the_next() {
        let turns = Arc::new(FairTurns::default());
        let mut running = busy(&turns, LARGE_MAX);
        for _ in 0..10_000 {
            assert!(waiting(&turns, 100).now_or_never().is_none());
        }
        let mut next = waiting(&turns, 10_000);
        assert!((&mut next).now_or_never().is_none());
        running.pop();
        assert!(next.now_or_never().is_some());
        assert_eq!(
            turns.lock().running,
            LARGE_MAX - 1,
            "the turn was dropped again"
        );
    }
}
