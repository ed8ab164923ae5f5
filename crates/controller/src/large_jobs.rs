//! Which of the jobs that are too large to keep is read next. Decides that one is read at a time, because
//! the values of one take some ten times its text, and that namespaces take turns: whoever has many such
//! jobs does not keep others waiting. Knows nothing of what is done with a job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A job that may not be read asks again after a second. One that has not asked for this long waits no
/// more, and neither does one that was read.
const ASKS_AGAIN: Duration = Duration::from_secs(2);
/// How long the last turn of a namespace counts: whoever comes back after a pause is not the first again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Large jobs of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct LargeJobs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    busy: bool,
    turns: u64,
    /// Namespaces that have such jobs to read.
    asked: HashMap<Arc<str>, Asked>,
}

#[derive(Debug)]
struct Asked {
    at: Instant,
    waits: bool,
    /// The number of its last turn; none yet is zero.
    turn: u64,
}

/// A job may be read while this lives.
#[derive(Debug)]
pub(crate) struct ReadPermit<'a>(&'a LargeJobs);

impl LargeJobs {
    /// Whether a job of this namespace may be read now.
    pub(crate) fn try_read(&self, namespace: &Arc<str>) -> Option<ReadPermit<'_>> {
        self.lock()
            .try_read(namespace, Instant::now())
            .then(|| ReadPermit(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn try_read(&mut self, namespace: &Arc<str>, now: Instant) -> bool {
        self.asked
            .retain(|_, asked| now.duration_since(asked.at) < REMEMBERED);
        let mine = self.asked.entry(Arc::clone(namespace)).or_insert(Asked {
            at: now,
            waits: true,
            turn: 0,
        });
        (mine.at, mine.waits) = (now, true);
        let turn = mine.turn;
        let goes_first = |other: &Asked| {
            other.waits && other.turn < turn && now.duration_since(other.at) < ASKS_AGAIN
        };
        if self.busy || self.asked.values().any(goes_first) {
            return false;
        }
        self.busy = true;
        self.turns += 1;
        let turns = self.turns;
        self.asked
            .entry(Arc::clone(namespace))
            .and_modify(|mine| (mine.turn, mine.waits) = (turns, false));
        true
    }
}

impl Drop for ReadPermit<'_> {
    fn drop(&mut self) {
        self.0.lock().busy = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn s01_one_large_job_is_read_at_a_time() {
        let (jobs, namespace) = (LargeJobs::default(), "a".into());
        let first = jobs.try_read(&namespace).expect("nobody reads");
        assert!(jobs.try_read(&namespace).is_none());
        drop(first);
        assert!(jobs.try_read(&namespace).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn s01_whoever_has_many_large_jobs_takes_turns_with_others() {
        let jobs = LargeJobs::default();
        let (many, one) = ("many".into(), "one".into());
        let first = jobs.try_read(&many).expect("nobody reads");
        assert!(jobs.try_read(&one).is_none());
        drop(first);
        assert!(jobs.try_read(&many).is_none(), "the other one waits");
        assert!(jobs.try_read(&one).is_some());
        assert!(jobs.try_read(&many).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn s01_nobody_waits_for_a_namespace_that_asks_no_more() {
        let jobs = LargeJobs::default();
        let (many, one) = ("many".into(), "one".into());
        let first = jobs.try_read(&many).expect("nobody reads");
        assert!(jobs.try_read(&one).is_none());
        drop(first);
        tokio::time::advance(ASKS_AGAIN).await;
        assert!(jobs.try_read(&many).is_some());
        tokio::time::advance(REMEMBERED).await;
        assert!(jobs.try_read(&many).is_some());
        assert_eq!(jobs.lock().asked.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn s01_whoever_was_away_for_a_while_is_not_the_first_again() {
        let jobs = LargeJobs::default();
        let (waits, returns, third) = ("waits".into(), "returns".into(), "third".into());
        assert!(jobs.try_read(&waits).is_some());
        assert!(jobs.try_read(&returns).is_some());
        let busy = jobs.try_read(&third).expect("nobody reads");
        for _ in 0..2 {
            tokio::time::advance(ASKS_AGAIN / 2).await;
            assert!(jobs.try_read(&waits).is_none());
        }
        assert!(jobs.try_read(&returns).is_none());
        drop(busy);
        assert!(jobs.try_read(&returns).is_none(), "the other one waits");
        assert!(jobs.try_read(&waits).is_some());
    }
}
