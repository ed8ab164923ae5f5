//! What is known of all workers while the gate is closed, and the threads that ask them. Decides who
//! is asked next and when everyone has answered; must not know how a worker is asked.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{EventfdFlags, eventfd};

use super::probe::{Probe, ProbeError};
use crate::hosts::Host;

/// Workers asked at the same time; more would only wait for the processor.
const PROBERS_MAX: usize = 64;
/// A worker that did not answer is asked again after this long.
const RETRY_INTERVAL: Duration = Duration::from_millis(150);
/// Nobody waits longer than this for work, whatever wake-up was missed.
const IDLE_MAX: Duration = Duration::from_secs(1);
const THREAD_STACK_BYTES: usize = 256 * 1024;

/// Something may yet come of a worker that does other than refuse, but not for ever: packets may be
/// dropped on the way, or another program may listen on the port.
pub(super) const SILENCE_FACTOR: u32 = 3;

/// One worker at the address that it was listed with.
struct WorkerState {
    listed: Instant,
    last: LastProbe,
}

/// What it said last.
enum LastProbe {
    /// The worker was not probed yet.
    None,
    Answered,
    /// It has refused without a pause since then.
    Refused(Instant),
    Failed,
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
    /// As last listed, in that order.
    listed: Vec<Host>,
    states: BTreeMap<String, WorkerState>,
    /// To be asked, not before their time.
    queue: VecDeque<(Instant, Host)>,
    /// The last reason heard from anyone.
    pub(super) reason: Option<String>,
}

impl Workers {
    /// A worker that was replaced has another address, and has to answer there.
    pub(super) fn list(&mut self, hosts: Vec<Host>) {
        if hosts == self.listed {
            return;
        }
        let now = Instant::now();
        let known: BTreeMap<_, _> = self.listed.drain(..).map(|h| (h.name, h.address)).collect();
        for host in &hosts {
            if known.get(&host.name) != Some(&host.address) {
                let state = WorkerState {
                    listed: now,
                    last: LastProbe::None,
                };
                self.states.insert(host.name.clone(), state);
                self.queue.retain(|(_, waiting)| waiting.name != host.name);
                self.queue.push_back((now, host.clone()));
            }
        }
        self.states
            .retain(|name, _| hosts.iter().any(|host| host.name == *name));
        self.queue
            .retain(|(_, waiting)| hosts.iter().any(|host| host.name == waiting.name));
        self.listed = hosts;
    }

    fn heard(&mut self, host: Host, answer: Result<(), ProbeError>) {
        if !self.listed.contains(&host) {
            return;
        }
        let now = Instant::now();
        if let Some(state) = self.states.get_mut(&host.name) {
            state.last = match (&answer, &state.last) {
                (Ok(()), _) => LastProbe::Answered,
                (Err(ProbeError::Refused(_)), LastProbe::Refused(since)) => {
                    LastProbe::Refused(*since)
                }
                (Err(ProbeError::Refused(_)), _) => LastProbe::Refused(now),
                (Err(ProbeError::Other(_)), _) => LastProbe::Failed,
            };
        }
        if let Err(silence) = answer {
            self.reason = Some(format!("{}: {silence}", host.name));
            self.queue.push_back((now + RETRY_INTERVAL, host));
        }
    }

    pub(super) fn known(&self) -> usize {
        self.listed.len()
    }

    pub(super) fn listed(&self) -> Vec<Host> {
        self.listed.clone()
    }

    fn has_answered(&self, host: &Host) -> bool {
        let state = self.states.get(&host.name);
        state.is_some_and(|state| matches!(state.last, LastProbe::Answered))
    }

    pub(super) fn answered(&self) -> Vec<Host> {
        let answered = self.listed.iter().filter(|host| self.has_answered(host));
        answered.cloned().collect()
    }

    /// Listed, and not heard of.
    pub(super) fn missing(&self) -> Vec<String> {
        let missing = self.listed.iter().filter(|host| !self.has_answered(host));
        missing.map(|host| host.name.clone()).collect()
    }

    /// All workers are listed, and each of those that have not answered has refused for this long,
    /// or has done whatever else for [`SILENCE_FACTOR`] times as long.
    pub(super) fn hopeless(&self, patience: Duration, asked: usize) -> Option<Hopeless> {
        if self.listed.len() < asked {
            return None;
        }
        let mut hopeless = Hopeless::default();
        for host in self.listed.iter().filter(|host| !self.has_answered(host)) {
            let state = self.states.get(&host.name)?;
            let name = host.name.clone();
            match state.last {
                LastProbe::Refused(since) if since.elapsed() >= patience => {
                    hopeless.refusing.push(name)
                }
                LastProbe::Refused(_) | LastProbe::Failed
                    if state.listed.elapsed() >= patience * SILENCE_FACTOR =>
                {
                    hopeless.silent.push(name);
                }
                _ => return None,
            }
        }
        Some(hopeless)
    }

    fn next(&mut self) -> Result<Host, Duration> {
        let now = Instant::now();
        let due = self.queue.iter().position(|(when, _)| *when <= now);
        if let Some((_, host)) = due.and_then(|at| self.queue.remove(at)) {
            return Ok(host);
        }
        let soonest = self.queue.iter().map(|(when, _)| *when).min();
        Err(soonest.map_or(IDLE_MAX, |when| when.saturating_duration_since(now)))
    }
}

/// What those who ask have in common.
struct Shared {
    workers: Mutex<Workers>,
    /// Someone may be due, or nobody is to be asked any more.
    work: Condvar,
    /// Readable once someone has answered.
    news: OwnedFd,
    closed: AtomicBool,
}

/// The workers and those who ask, until this is dropped.
pub(super) struct Probers {
    shared: Arc<Shared>,
    probe: Arc<Probe>,
    started: usize,
}

impl Drop for Probers {
    /// Who is asking right now ends when that is done.
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

    /// As many ask as there are workers, within reason.
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
            self.workers().heard(host, answer);
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
            workers.heard(host, Ok(()));
        }
        assert_eq!(workers.answered().len(), 2);
        workers.list(parse("w0 10.0.0.1\nw1 10.0.0.3\n"));
        assert_eq!(workers.missing(), ["w1"]);
        let moved = workers.next().unwrap();
        assert_eq!(moved.address, "10.0.0.3");
        assert!(workers.next().is_err(), "w0 need not answer again");
        workers.heard(parse("w1 10.0.0.2\n").remove(0), Ok(()));
        assert_eq!(workers.missing(), ["w1"], "an answer from where it was");
        workers.heard(moved, Ok(()));
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
        workers.heard(first, Ok(()));
        assert!(!refusing(&workers, 2), "w1 was not asked yet");
        workers.heard(second.clone(), refused());
        assert!(refusing(&workers, 2));
        assert!(!refusing(&workers, 3), "one has no address");
        assert_eq!(workers.hopeless(PATIENCE, 2), None);
        workers.heard(second.clone(), silent());
        assert!(!refusing(&workers, 2));
        workers.heard(second, refused());
        assert!(refusing(&workers, 2));
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    impl Workers {
        /// As if all had been listed so long ago.
        fn listed_ago(&mut self, ago: Duration) {
            for state in self.states.values_mut() {
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
        workers.heard(host.clone(), silent());
        let gone = Hopeless {
            refusing: vec![],
            silent: vec!["w0".into()],
        };
        assert_eq!(workers.hopeless(PATIENCE, 1), Some(gone));
        assert_eq!(workers.hopeless(PATIENCE * 2, 1), None);
        // Now silent, now refusing: no less hopeless.
        workers.heard(host.clone(), refused());
        assert!(workers.hopeless(PATIENCE, 1).is_some());
        // Its successor has its own time.
        workers.list(parse("w0 10.0.0.2\n"));
        workers.heard(workers.listed[0].clone(), silent());
        assert_eq!(workers.hopeless(PATIENCE, 1), None);
        workers.heard(workers.listed[0].clone(), Ok(()));
        let nobody = Some(Hopeless::default());
        assert_eq!(workers.hopeless(PATIENCE, 1), nobody);
    }
}
