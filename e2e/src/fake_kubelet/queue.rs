//! What is to be done, and when. Decides the order: whatever is due first. Must not know what it is.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Tasks of many threads for many threads.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// By time, and by number where the time is the same.
    tasks: BTreeMap<(Instant, u64), T>,
    count: u64,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let state = State {
            tasks: BTreeMap::new(),
            count: 0,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        let state = self.state.lock();
        state.expect("nobody panics with this lock held")
    }

    pub(super) fn push(&self, due: Instant, task: T) {
        let mut state = self.state();
        state.count += 1;
        let key = (due, state.count);
        state.tasks.insert(key, task);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for the next task that is due; `None` once the queue is closed.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            let first = state.tasks.first_key_value();
            state = match first.map(|(key, _)| key.0.saturating_duration_since(now)) {
                Some(wait) if wait.is_zero() => {
                    return state.tasks.pop_first().map(|(_, task)| task);
                }
                Some(wait) => {
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.expect("nobody panics with this lock held").0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.expect("nobody panics with this lock held")
                }
            };
        }
    }

    /// Ends all waiting.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_due_first_comes_first_and_nothing_comes_early() {
        let (queue, now) = (Queue::new(), Instant::now());
        let later = now + Duration::from_millis(30);
        queue.push(later, "later");
        queue.push(now, "now");
        assert_eq!(queue.pop(), Some("now"));
        assert_eq!(queue.pop(), Some("later"));
        assert!(Instant::now() >= later);
        queue.close();
        assert_eq!(queue.pop(), None);
    }
}
