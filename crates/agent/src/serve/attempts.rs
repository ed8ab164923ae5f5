//! Attempts of the launcher's command that are over. Decides when nothing of them is left on this worker, and
//! that nothing more is started for them: a request may still be under way when its launcher has ended. Must
//! not know what sessions do.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::tree::{Process, end_all};

/// Attempts that are remembered. A request that is under way arrives within seconds; there are fewer attempts
/// than this in that time.
const REMEMBERED_MAX: usize = 1024;

/// Why a command is not started.
#[derive(Debug, Error)]
pub(super) enum NotStarted {
    #[error("the attempt that asks for it is over")]
    Over,
    #[error("what an earlier attempt has started is being ended")]
    Ending,
}

/// All attempts that are over.
#[derive(Default)]
pub(crate) struct Attempts {
    state: Mutex<State>,
    cleared: Condvar,
}

#[derive(Default)]
struct State {
    over: VecDeque<String>,
    is_ending: bool,
}

impl Attempts {
    /// Starts a command of an attempt, or of none. No attempt can end meanwhile, so that whoever ends one
    /// finds the command.
    pub(super) fn start<T>(
        &self,
        attempt: Option<&str>,
        start: impl FnOnce() -> T,
    ) -> Result<T, NotStarted> {
        let state = self.lock();
        if attempt.is_some_and(|mark| state.over.iter().any(|over| over == mark)) {
            return Err(NotStarted::Over);
        }
        if state.is_ending {
            return Err(NotStarted::Ending);
        }
        Ok(start())
    }

    /// It was ended, so that nothing of it is here.
    pub(super) fn is_over(&self, attempt: &str) -> bool {
        self.lock().over.iter().any(|over| over == attempt)
    }

    /// Ends what is left on this worker, unless that was done for this attempt before. Returns whether all
    /// of it is gone by then; if not, it is still being ended.
    pub(super) fn end(
        self: &Arc<Self>,
        mark: String,
        leftovers: impl Fn() -> Vec<Process> + Send + 'static,
        grace: Duration,
        until: Instant,
    ) -> bool {
        let mut state = self.lock();
        if !state.over.contains(&mark) {
            if !state.is_ending {
                let attempts = self.clone();
                let ending = std::thread::Builder::new().spawn(move || {
                    while !end_all(&leftovers, grace) {}
                    attempts.lock().is_ending = false;
                    attempts.cleared.notify_all();
                });
                // Where nothing can be started now, whoever asks again finds the mark unknown.
                if ending.is_err() {
                    return false;
                }
                state.is_ending = true;
            }
            state.over.push_back(mark);
            if state.over.len() > REMEMBERED_MAX {
                state.over.pop_front();
            }
        }
        while state.is_ending {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.cleared.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    /// A process of this machine that no signal reaches, because it was never there.
    fn nobody() -> Process {
        Process {
            number: i32::MAX,
            parent: 1,
            zombie: false,
            started: 0,
            status: 0,
        }
    }

    #[test]
    fn nothing_is_started_for_an_attempt_that_is_over() {
        let attempts = Arc::new(Attempts::default());
        assert_eq!(attempts.start(Some("one"), || 1).unwrap(), 1);
        assert!(attempts.end("one".into(), Vec::new, Duration::ZERO, soon()));
        let late = attempts.start(Some("one"), || 2);
        assert!(matches!(late, Err(NotStarted::Over)), "{late:?}");
        assert_eq!(attempts.start(Some("two"), || 3).unwrap(), 3);
        assert_eq!(attempts.start(None, || 4).unwrap(), 4);
    }

    #[test]
    fn nothing_is_started_while_anything_is_left_and_what_began_later_is_not_ended() {
        let attempts = Arc::new(Attempts::default());
        let left = Arc::new(AtomicUsize::new(1));
        let count = left.clone();
        let leftovers = move || vec![nobody(); count.load(Ordering::SeqCst)];
        let at_once = Instant::now();
        let is_clear = |until| attempts.end("one".into(), leftovers.clone(), Duration::ZERO, until);
        assert!(!is_clear(at_once));
        let early = attempts.start(Some("two"), || ());
        assert!(matches!(early, Err(NotStarted::Ending)), "{early:?}");
        left.store(0, Ordering::SeqCst);
        assert!(is_clear(soon()));
        assert!(attempts.start(Some("two"), || ()).is_ok());
        // Asked once more, as a launcher does that has not heard the answer.
        left.store(1, Ordering::SeqCst);
        assert!(is_clear(at_once));
        assert!(attempts.start(Some("two"), || ()).is_ok());
    }
}
