//! What the gate knows of all workers, and the threads that probe them. Decides which worker is probed
//! next and when everyone has answered; must not know how a worker is probed.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{EventfdFlags, eventfd};

use super::probe::{Probe, ProbeError};
use crate::hosts::Host;

/// More threads would only wait for the processor.
const PROBERS_MAX: usize = 64;
/// A worker that did not answer is probed again after this long.
const RETRY_INTERVAL: Duration = Duration::from_millis(150);
/// No thread waits longer than this for work, in case it missed a wake-up.
const IDLE_MAX: Duration = Duration::from_secs(1);
const THREAD_STACK_BYTES: usize = 256 * 1024;

/// A worker that fails in another way than by refusing gets this many times as long: packets may be
/// dropped on the way, or another program may listen on the port.
pub(super) const SILENCE_FACTOR: u32 = 3;

/// One worker at the address that it was listed with.
struct WorkerState {
    host: Host,
    listed: Instant,
    last: LastProbe,
    /// When it is probed next; never while a thread does so, nor once it has answered.
    due: Option<Instant>,
}

enum LastProbe {
    /// The worker was not probed yet.
    None,
    Answered,
    /// It has refused without a pause since then.
    Refused(Instant),
    Failed,
}

impl WorkerState {
    fn new(host: Host) -> Self {
        let now = Instant::now();
        Self {
            host,
            listed: now,
            last: LastProbe::None,
            due: Some(now),
        }
    }

    fn has_answered(&self) -> bool {
        matches!(self.last, LastProbe::Answered)
    }
}

/// Workers that will not answer, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hopeless {
    pub(super) refusing: Vec<String>,
    pub(super) silent: Vec<String>,
}

/// Everything known of the workers.
#[derive(Default)]
pub(super) struct Workers {
    /// In the order of the list.
    states: Vec<WorkerState>,
    /// The last reason that anyone failed for.
    pub(super) reason: Option<String>,
}

impl Workers {
    /// A worker that was replaced has another address, and has to answer there.
    pub(super) fn list(&mut self, hosts: Vec<Host>) {
        if self.states.iter().map(|state| &state.host).eq(&hosts) {
            return;
        }
        let mut known = std::mem::take(&mut self.states);
        for host in hosts {
            let at = known.iter().position(|state| state.host == host);
            let state = at.map(|at| known.swap_remove(at));
            self.states
                .push(state.unwrap_or_else(|| WorkerState::new(host)));
        }
    }

    fn note(&mut self, host: &Host, answer: Result<(), ProbeError>) {
        let now = Instant::now();
        let mut states = self.states.iter_mut();
        let Some(state) = states.find(|state| state.host == *host) else {
            return; // replaced meanwhile
        };
        state.last = match (&answer, &state.last) {
            (Ok(()), _) => LastProbe::Answered,
            (Err(ProbeError::Refused(_)), LastProbe::Refused(since)) => LastProbe::Refused(*since),
            (Err(ProbeError::Refused(_)), _) => LastProbe::Refused(now),
            (Err(ProbeError::Other(_)), _) => LastProbe::Failed,
        };
        if let Err(error) = answer {
            state.due = Some(now + RETRY_INTERVAL);
            self.reason = Some(format!("{}: {error}", host.name));
        }
    }

    pub(super) fn known(&self) -> usize {
        self.states.len()
    }

    pub(super) fn listed(&self) -> Vec<Host> {
        self.states.iter().map(|state| state.host.clone()).collect()
    }

    pub(super) fn answered(&self) -> Vec<Host> {
        let answered = self.states.iter().filter(|state| state.has_answered());
        answered.map(|state| state.host.clone()).collect()
    }

    fn unanswered(&self) -> impl Iterator<Item = &WorkerState> {
        self.states.iter().filter(|state| !state.has_answered())
    }

    /// Names of the workers that are listed and have not answered.
    pub(super) fn missing(&self) -> Vec<String> {
        let missing = self.unanswered();
        missing.map(|state| state.host.name.clone()).collect()
    }

    /// All workers are listed, and each of those that have not answered has refused for this long,
    /// or has failed in any way for [`SILENCE_FACTOR`] times as long.
    pub(super) fn hopeless(&self, patience: Duration, asked: usize) -> Option<Hopeless> {
        if self.states.len() < asked {
            return None;
        }
        let mut hopeless = Hopeless::default();
        for state in self.unanswered() {
            let name = state.host.name.clone();
            let silent = state.listed.elapsed() >= patience * SILENCE_FACTOR;
            match state.last {
                LastProbe::Refused(since) if since.elapsed() >= patience => {
                    hopeless.refusing.push(name);
                }
                LastProbe::Refused(_) | LastProbe::Failed if silent => hopeless.silent.push(name),
                _ => return None,
            }
        }
        Some(hopeless)
    }

    /// The worker to probe now, or how long until one is due.
    fn next(&mut self) -> Result<Host, Duration> {
        let states = self.states.iter_mut();
        let due = states.filter_map(|state| Some((state.due?, state)));
        let Some((when, state)) = due.min_by_key(|(when, _)| *when) else {
            return Err(IDLE_MAX);
        };
        let wait = when.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            return Err(wait);
        }
        state.due = None;
        Ok(state.host.clone())
    }
}

/// What all threads share.
struct Shared {
    workers: Mutex<Workers>,
    /// A worker may be due, or no more are to be probed.
    work: Condvar,
    /// Readable once a worker has answered.
    news: OwnedFd,
    closed: AtomicBool,
}

/// The workers, and threads that probe them until this is dropped.
pub(super) struct Probers {
    shared: Arc<Shared>,
    probe: Arc<Probe>,
    started: usize,
}

impl Drop for Probers {
    /// A thread that is probing right now ends after that.
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.work.notify_all();
    }
}

impl Probers {
    pub(super) fn new(probe: Arc<Probe>) -> Result<Self> {
        let shared = Arc::new(Shared {
            workers: Mutex::default(),
            work: Condvar::new(),
            news: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            closed: AtomicBool::new(false),
        });
        Ok(Self {
            shared,
            probe,
            started: 0,
        })
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, Workers> {
        self.shared.workers()
    }

    pub(super) fn news(&self) -> &OwnedFd {
        &self.shared.news
    }

    /// Starts as many threads as there are workers, up to a limit.
    pub(super) fn list(&mut self, hosts: Vec<Host>) -> Result<()> {
        let wanted = hosts.len().min(PROBERS_MAX);
        self.workers().list(hosts);
        self.shared.work.notify_all();
        while self.started < wanted {
            let (shared, probe) = (self.shared.clone(), self.probe.clone());
            std::thread::Builder::new()
                .stack_size(THREAD_STACK_BYTES)
                .spawn(move || shared.run(&probe))?;
            self.started += 1;
        }
        Ok(())
    }

    /// Forgets that there was news.
    pub(super) fn take_news(&self) {
        let mut count = [0; 8];
        // Nothing to read is no news.
        let _ = rustix::io::read(self.news(), &mut count[..]);
    }
}

impl Shared {
    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, probe: &Probe) {
        while let Some(host) = self.next() {
            let answer = probe.run(&host);
            let answered = answer.is_ok();
            self.workers().note(&host, answer);
            if answered {
                // Full means that there is news already.
                let _ = rustix::io::write(&self.news, &1_u64.to_ne_bytes());
            }
        }
    }

    fn next(&self) -> Option<Host> {
        let mut workers = self.workers();
        while !self.closed.load(Ordering::SeqCst) {
            match workers.next() {
                Ok(host) => return Some(host),
                Err(wait) => {
                    let waited = self.work.wait_timeout(workers, wait.min(IDLE_MAX));
                    workers = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::parse;

    fn refused() -> Result<(), ProbeError> {
        Err(ProbeError::Refused(vec![22]))
    }

    #[test]
    fn a_worker_that_moved_has_to_answer_again() {
        let mut workers = Workers::default();
        workers.list(parse("w0 10.0.0.1\nw1 10.0.0.2\n"));
        for _ in 0..2 {
            let host = workers.next().unwrap();
            workers.note(&host, Ok(()));
        }
        assert_eq!(workers.answered().len(), 2);
        workers.list(parse("w0 10.0.0.1\nw1 10.0.0.3\n"));
        assert_eq!(workers.missing(), ["w1"]);
        let moved = workers.next().unwrap();
        assert_eq!(moved.address, "10.0.0.3");
        assert!(workers.next().is_err(), "w0 need not answer again");
        workers.note(&parse("w1 10.0.0.2\n")[0], Ok(()));
        assert_eq!(workers.missing(), ["w1"], "an answer from where it was");
        workers.note(&moved, Ok(()));
        assert_eq!(workers.missing(), [""; 0]);
        workers.list(parse("w1 10.0.0.3\n"));
        assert_eq!((workers.known(), workers.answered().len()), (1, 1));
    }

    fn silent() -> Result<(), ProbeError> {
        Err(ProbeError::Other("no answer".into()))
    }

    #[test]
    fn refusals_count_when_all_others_have_answered() {
        let mut workers = Workers::default();
        workers.list(parse("w0 10.0.0.1\nw1 10.0.0.2\n"));
        let (first, second) = (workers.next().unwrap(), workers.next().unwrap());
        let refusing = |workers: &Workers, asked| {
            let hopeless = workers.hopeless(Duration::ZERO, asked);
            hopeless.is_some_and(|hopeless| hopeless.refusing == ["w1"])
        };
        workers.note(&first, Ok(()));
        assert!(!refusing(&workers, 2), "w1 was not asked yet");
        workers.note(&second, refused());
        assert!(refusing(&workers, 2));
        assert!(!refusing(&workers, 3), "one has no address");
        assert_eq!(workers.hopeless(PATIENCE, 2), None);
        workers.note(&second, silent());
        assert!(!refusing(&workers, 2));
        workers.note(&second, refused());
        assert!(refusing(&workers, 2));
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    impl Workers {
        /// As if all had been listed so long ago.
        fn listed_ago(&mut self, ago: Duration) {
            for state in &mut self.states {
                state.listed = state.listed.checked_sub(ago).unwrap();
            }
        }
    }

    #[test]
    fn a_worker_that_never_says_what_an_sshd_says_is_not_waited_for_for_ever() {
        let mut workers = Workers::default();
        workers.list(parse("w0 10.0.0.1\n"));
        let host = workers.next().unwrap();
        workers.listed_ago(PATIENCE * 3);
        assert_eq!(workers.hopeless(PATIENCE, 1), None, "not asked yet");
        workers.note(&host, silent());
        let gone = Hopeless {
            refusing: vec![],
            silent: vec!["w0".into()],
        };
        assert_eq!(workers.hopeless(PATIENCE, 1), Some(gone));
        assert_eq!(workers.hopeless(PATIENCE * 2, 1), None);
        // Now silent, now refusing: no less hopeless.
        workers.note(&host, refused());
        assert!(workers.hopeless(PATIENCE, 1).is_some());
        // Its successor has its own time.
        workers.list(parse("w0 10.0.0.2\n"));
        workers.note(&workers.listed()[0], silent());
        assert_eq!(workers.hopeless(PATIENCE, 1), None);
        workers.note(&workers.listed()[0], Ok(()));
        let nobody = Some(Hopeless::default());
        assert_eq!(workers.hopeless(PATIENCE, 1), nobody);
    }
}
