//! Attempts of the launcher's command: the one that runs on this worker, and those that are over. Decides when
//! nothing of them is left here, that nothing more is started for them (a request may still be under way
//! when its launcher has ended), and that two never run here at once. Must not know what sessions do.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::attempt_mark::{is_beginning, launcher_of};
use crate::tree::{Process, end_all};

/// Attempts and launchers that are remembered. A request that is under way arrives within seconds; there are
/// fewer attempts than this in that time.
const REMEMBERED_MAX: usize = 1024;

/// Why a worker does not do what an attempt asks for.
#[derive(Debug, Error)]
pub(super) enum Refused {
    #[error("the attempt that asks for it is over")]
    Over,
    #[error("what an earlier attempt has started is being ended")]
    Ending,
    #[error("{0} processes of the attempt before have not ended yet")]
    Left(usize),
    #[error("another launcher of this job has this worker")]
    OtherLauncher,
    #[error("no thread can be had to end the attempt before")]
    NoThread,
}

/// All attempts of which this worker has heard.
#[derive(Default)]
pub(crate) struct Attempts {
    state: Mutex<State>,
    cleared: Condvar,
}

#[derive(Default)]
struct State {
    /// Whose programs run here. Of two launchers that live, each would end the other's programs.
    launcher: Option<String>,
    /// Launchers that had this worker before.
    outranked: VecDeque<String>,
    over: VecDeque<String>,
    is_ending: bool,
}

impl State {
    fn is_over(&self, attempt: &str) -> bool {
        self.over.iter().any(|over| over == attempt)
    }

    /// The launcher of this attempt has the worker from now on, if it may. One that begins is the last that
    /// was created, and takes it from any other; else nothing of the other may be left.
    fn give_to_launcher_of(
        &mut self,
        mark: &str,
        begins: bool,
        is_free: impl Fn() -> bool,
    ) -> Result<(), Refused> {
        let launcher = launcher_of(mark);
        if self.outranked.iter().any(|other| other == launcher) {
            return Err(Refused::OtherLauncher);
        }
        match &self.launcher {
            Some(other) if other != launcher => {
                if !begins && !is_free() {
                    return Err(Refused::OtherLauncher);
                }
                remember(&mut self.outranked, other.clone());
            }
            _ => {}
        }
        self.launcher = Some(launcher.to_owned());
        Ok(())
    }
}

fn remember(all: &mut VecDeque<String>, one: String) {
    all.push_back(one);
    if all.len() > REMEMBERED_MAX {
        all.pop_front();
    }
}

impl Attempts {
    /// Starts a command of an attempt, or of none. No attempt can end meanwhile, so that whoever ends one
    /// finds the command. `leftovers`: what runs here for any launcher.
    pub(super) fn start<T>(
        &self,
        attempt: Option<&str>,
        leftovers: impl Fn() -> Vec<Process>,
        start: impl FnOnce() -> T,
    ) -> Result<T, Refused> {
        let mut state = self.lock();
        if attempt.is_some_and(|mark| state.is_over(mark)) {
            return Err(Refused::Over);
        }
        if state.is_ending {
            return Err(Refused::Ending);
        }
        if let Some(mark) = attempt {
            state.give_to_launcher_of(mark, false, || leftovers().is_empty())?;
        }
        Ok(start())
    }

    /// Whether its launcher may still tell its ranks anything.
    pub(super) fn has_worker(&self, attempt: &str) -> bool {
        let state = self.lock();
        let launcher = state.launcher.as_deref();
        let is_its = launcher.is_none_or(|launcher| launcher == launcher_of(attempt));
        is_its && !state.is_over(attempt)
    }

    /// Ends what is left on this worker, unless that was done for this attempt before, and waits until all of
    /// it is gone, or is being ended still.
    pub(super) fn end(
        self: &Arc<Self>,
        mark: String,
        leftovers: impl Fn() -> Vec<Process> + Clone + Send + 'static,
        grace: Duration,
        until: Instant,
    ) -> Result<(), Refused> {
        let mut state = self.lock();
        let is_free = || leftovers().is_empty();
        state.give_to_launcher_of(&mark, is_beginning(&mark), is_free)?;
        if !state.is_over(&mark) {
            if !state.is_ending {
                let (attempts, all) = (self.clone(), leftovers.clone());
                let ending = std::thread::Builder::new().spawn(move || {
                    while !end_all(&all, grace) {}
                    attempts.lock().is_ending = false;
                    attempts.cleared.notify_all();
                });
                // Where nothing can be started now, whoever asks again finds the mark unknown.
                ending.map_err(|_| Refused::NoThread)?;
                state.is_ending = true;
            }
            remember(&mut state.over, mark);
        }
        while state.is_ending {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return Err(Refused::Left(leftovers().len()));
            }
            let waited = self.cleared.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
