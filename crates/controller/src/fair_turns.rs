//! Whose requests are sent next when jobs have many. Decides how many requests of large jobs run at
//! once, over all jobs, and in which order; a job with little to do never waits here, and while it
//! has something to do, the others take less of the API server. Knows nothing of what is requested.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// A job that has at most this many requests to send is small.
const SMALL: usize = 64;
/// Requests of large jobs that run at once, over all jobs.
const LARGE_MAX: usize = 32;
/// The same while a small job has something to do: each request of its own, of which most wait for
/// the one before, then takes the API server a quarter of the time.
const LARGE_BESIDE_SMALL_MAX: usize = 8;
/// A small job that sent something may have more to do for this long.
const SMALL_LASTS: Duration = Duration::from_millis(500);
/// Of so many turns, one goes to who has waited longest: a large job goes on however many smaller
/// ones come.
const OLDEST_EVERY: u64 = 4;

/// Turns of all jobs.
#[derive(Debug, Default)]
pub(crate) struct FairTurns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// By how much its job has left, and then by when it came.
    waiting: BTreeMap<(usize, u64), oneshot::Sender<Turn>>,
    arrived: u64,
    given: u64,
    small_until: Option<Instant>,
}

/// A request may be sent while this lives.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<FairTurns>>);

impl FairTurns {
    /// Returns when a request may be sent of a job that has `left` of them.
    pub(crate) async fn take(self: &Arc<Self>, left: usize) -> Turn {
        if left <= SMALL {
            self.lock().small_until = Some(Instant::now() + SMALL_LASTS);
            return Turn(None);
        }
        let (give, turn) = oneshot::channel();
        {
            let mut state = self.lock();
            state.arrived += 1;
            let key = (left, state.arrived);
            state.waiting.insert(key, give);
        }
        self.give();
        turn.await
            .expect("a turn is given to everybody who waits for one")
    }

    /// Gives as many turns as there may be.
    fn give(self: &Arc<Self>) {
        loop {
            let next = self.lock().next();
            let Some(next) = next else { return };
            // Whoever waited may have been cancelled.
            if let Err(mut turn) = next.send(Turn(Some(Arc::clone(self)))) {
                turn.0 = None;
                self.lock().running -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Who has the next turn, if there is one now.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let beside_small = self.small_until.is_some_and(|until| Instant::now() < until);
        let max = match beside_small {
            true => LARGE_BESIDE_SMALL_MAX,
            false => LARGE_MAX,
        };
        if self.running >= max {
            return None;
        }
        let by_size = || self.waiting.keys().next().copied();
        let by_age = || self.waiting.keys().min_by_key(|(_, came)| *came).copied();
        let key = match (self.given + 1) % OLDEST_EVERY {
            0 => by_age(),
            _ => by_size(),
        };
        let next = self.waiting.remove(&key?)?;
        (self.given, self.running) = (self.given + 1, self.running + 1);
        Some(next)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.lock().running -= 1;
            turns.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::*;

    fn waiting(turns: &Arc<FairTurns>, left: usize) -> BoxFuture<'static, Turn> {
        let turns = Arc::clone(turns);
        async move { turns.take(left).await }.boxed()
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
        assert!(turns.take(2).now_or_never().is_some());
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
        assert_eq!(busy(&turns, LARGE_MAX - running.len()).len(), 25);
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
