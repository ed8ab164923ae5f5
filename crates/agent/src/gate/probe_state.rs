//! What the gate knows of all workers, and the threads that probe them. Decides which worker is probed
//! next and when everyone has answered; must not know how a worker is probed.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::probe::{Probe, ProbeError};
use crate::hosts::Host;

/// More threads would only wait for the processor.
const PROBERS_MAX: usize = 64;
/// A worker that did not answer is probed again after this long.
const RETRY_INTERVAL: Duration = Duration::from_millis(150);
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
    /// It has been busy without a pause since then.
    Busy(Instant),
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

/// Everything known of the workers. There may be thousands, and each answers once: whatever is done for
/// every answer takes no time by their number.
#[derive(Default)]
pub(super) struct Workers {
    /// In the order of the list.
    states: Vec<WorkerState>,
    /// Where in the list a worker is.
    places: HashMap<Host, usize>,
    /// Who is probed when.
    due: BTreeSet<(Instant, usize)>,
    answers: usize,
    /// The last reason that anyone failed for.
    pub(super) reason: Option<String>,
}

impl Workers {
    /// A worker that was replaced has another address, and has to answer there.
    pub(super) fn list(&mut self, hosts: Vec<Host>) {
        if self.states.iter().map(|state| &state.host).eq(&hosts) {
            return;
        }
        let known = std::mem::take(&mut self.states).into_iter();
        let mut known: HashMap<Host, WorkerState> =
            known.map(|state| (state.host.clone(), state)).collect();
        for host in hosts {
            let state = known.remove(&host);
            self.states
                .push(state.unwrap_or_else(|| WorkerState::new(host)));
        }
        let places = self.states.iter().enumerate();
        self.places = places
            .clone()
            .map(|(place, state)| (state.host.clone(), place))
            .collect();
        self.due = places
            .clone()
            .filter_map(|(place, state)| Some((state.due?, place)))
            .collect();
        self.answers = places.filter(|(_, state)| state.has_answered()).count();
    }

    fn note(&mut self, host: &Host, answer: Result<(), ProbeError>) {
        let now = Instant::now();
        let Some(place) = self.places.get(host).copied() else {
            return; // replaced meanwhile
        };
        let state = &mut self.states[place];
        let had_answered = state.has_answered();
        state.last = match (&answer, &state.last) {
            (Ok(()), _) => LastProbe::Answered,
            (Err(ProbeError::Refused(_)), LastProbe::Refused(since)) => LastProbe::Refused(*since),
            (Err(ProbeError::Refused(_)), _) => LastProbe::Refused(now),
            (Err(ProbeError::Busy(_)), LastProbe::Busy(since)) => LastProbe::Busy(*since),
            (Err(ProbeError::Busy(_)), _) => LastProbe::Busy(now),
            (Err(ProbeError::Other(_)), _) => LastProbe::Failed,
        };
        match (had_answered, state.has_answered()) {
            (false, true) => self.answers += 1,
            (true, false) => self.answers -= 1,
            (true, true) | (false, false) => {}
        }
        if let Err(error) = answer {
            if let Some(due) = state.due.replace(now + RETRY_INTERVAL) {
                self.due.remove(&(due, place));
            }
            self.due.insert((now + RETRY_INTERVAL, place));
            self.reason = Some(format!("{}: {error}", host.name));
        }
    }

    pub(super) fn known(&self) -> usize {
        self.states.len()
    }

    pub(super) fn listed(&self) -> Vec<Host> {
        self.states.iter().map(|state| state.host.clone()).collect()
    }

    pub(super) fn answers(&self) -> usize {
        self.answers
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

    /// A worker has been busy for this long.
    pub(super) fn is_busy_for(&self, patience: Duration) -> bool {
        self.states.iter().any(|state| match state.last {
            LastProbe::Busy(since) => since.elapsed() >= patience,
            _ => false,
        })
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

    /// A worker to probe now.
    fn next(&mut self) -> Option<Host> {
        let now = Instant::now();
        let next = self.due.first().copied();
        let (due, place) = next.filter(|(due, _)| *due <= now)?;
        self.due.remove(&(due, place));
        self.states[place].due = None;
        Some(self.states[place].host.clone())
    }
}

type Answer = (Host, Result<(), ProbeError>);

/// Threads that probe workers until this is dropped.
pub(super) struct Probers {
    probe: Arc<Probe>,
    due: Sender<Host>,
    /// Where threads take what is due, and leave answers.
    ends: (Arc<Mutex<Receiver<Host>>>, Sender<Answer>),
    answers: Receiver<Answer>,
    started: usize,
}

impl Probers {
    pub(super) fn new(probe: Arc<Probe>) -> Self {
        let (due, take) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        Self {
            probe,
            due,
            ends: (Arc::new(Mutex::new(take)), answer),
            answers,
            started: 0,
        }
    }

    /// Probes every worker that is due. Starts a thread for each worker, up to a limit.
    pub(super) fn probe_due(&mut self, workers: &mut Workers) -> Result<()> {
        while let Some(host) = workers.next() {
            self.due.send(host)?;
        }
        while self.started < workers.known().min(PROBERS_MAX) {
            let (probe, (due, answers)) = (self.probe.clone(), self.ends.clone());
            std::thread::Builder::new()
                .stack_size(THREAD_STACK_BYTES)
                .spawn(move || {
                    let next = || due.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    while let Ok(host) = next() {
                        let answer = probe.run(&host);
                        if answers.send((host, answer)).is_err() {
                            return;
                        }
                    }
                })?;
            self.started += 1;
        }
        Ok(())
    }

    /// Notes what the threads found out, until a worker has answered or the time is over.
    pub(super) fn wait(&self, workers: &mut Workers, time: Duration) {
        let until = Instant::now() + time;
        let mut answered = false;
        loop {
            let left = match answered {
                true => Duration::ZERO,
                false => until.saturating_duration_since(Instant::now()),
            };
            let Ok((host, answer)) = self.answers.recv_timeout(left) else {
                return;
            };
            answered |= answer.is_ok();
            workers.note(&host, answer);
        }
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
        assert!(workers.next().is_none(), "w0 need not answer again");
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

    /// Each answer once cost a look at every worker.
    #[test]
    fn c02_a_gate_takes_time_by_the_number_of_workers() {
        let took = |count: usize| {
            let list: String = (0..count)
                .map(|index| format!("w{index} 10.{}.{}.1\n", index / 256, index % 256))
                .collect();
            let hosts = parse(&list);
            let begun = Instant::now();
            let mut workers = Workers::default();
            workers.list(hosts.clone());
            let mut probed = Vec::new();
            while let Some(host) = workers.next() {
                probed.push(host);
            }
            workers.list(hosts[1..].to_vec());
            workers.list(hosts);
            for host in &probed {
                workers.note(host, Ok(()));
                assert!(workers.answers() > 0);
            }
            assert_eq!(workers.answers(), count);
            begun.elapsed()
        };
        // Ten times the small one takes as long, so that a busy machine disturbs both.
        let ten = || (0..10).map(|_| took(1_000)).sum::<Duration>();
        let small = (0..7).map(|_| ten()).min().unwrap();
        let large = (0..7).map(|_| took(10_000)).min().unwrap();
        assert!(
            large < small * 5,
            "{small:?} for 10 × 1000, {large:?} for 10000"
        );
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
