//! What is known of all workers while the gate is closed, and the threads that ask them. Decides who
//! is asked next and when everyone has answered; must not know how a worker is asked.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{EventfdFlags, eventfd};

use super::question::{Question, Silence};
use crate::hosts::Host;

/// Workers asked at the same time; more would only wait for the processor.
const CALLERS_MAX: usize = 64;
/// A worker that did not answer is asked again after this long.
const RETRY_INTERVAL: Duration = Duration::from_millis(150);
/// Nobody waits longer than this for work, whatever wake-up was missed.
const IDLE_MAX: Duration = Duration::from_secs(1);
const THREAD_STACK_BYTES: usize = 256 * 1024;

/// What one worker said last, at the address that it was listed with.
enum Standing {
    Unasked,
    Answered,
    /// Since when it has refused without a pause.
    Refusing(Instant),
    Silent,
}

/// Everything known of the workers.
#[derive(Default)]
pub(super) struct Board {
    /// As last listed, in that order.
    listed: Vec<Host>,
    standings: BTreeMap<String, Standing>,
    /// To be asked, not before their time.
    queue: VecDeque<(Instant, Host)>,
    /// The last reason heard from anyone.
    pub(super) reason: Option<String>,
}

impl Board {
    /// A worker that was replaced has another address, and has to answer there.
    pub(super) fn list(&mut self, hosts: Vec<Host>) {
        if hosts == self.listed {
            return;
        }
        let now = Instant::now();
        let known: BTreeMap<_, _> = self.listed.drain(..).map(|h| (h.name, h.address)).collect();
        for host in &hosts {
            if known.get(&host.name) != Some(&host.address) {
                self.standings.insert(host.name.clone(), Standing::Unasked);
                self.queue.retain(|(_, waiting)| waiting.name != host.name);
                self.queue.push_back((now, host.clone()));
            }
        }
        self.standings
            .retain(|name, _| hosts.iter().any(|host| host.name == *name));
        self.queue
            .retain(|(_, waiting)| hosts.iter().any(|host| host.name == waiting.name));
        self.listed = hosts;
    }

    fn heard(&mut self, host: Host, answer: Result<(), Silence>) {
        if !self.listed.contains(&host) {
            return;
        }
        let now = Instant::now();
        let refusing_since = match self.standings.get(&host.name) {
            Some(Standing::Refusing(since)) => *since,
            _ => now,
        };
        let standing = match &answer {
            Ok(()) => Standing::Answered,
            Err(Silence::Refused(_)) => Standing::Refusing(refusing_since),
            Err(Silence::Other(_)) => Standing::Silent,
        };
        self.standings.insert(host.name.clone(), standing);
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
        matches!(self.standings.get(&host.name), Some(Standing::Answered))
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

    /// All workers are listed, some have not answered, and each of those has refused for this long.
    pub(super) fn only_refusals_for(&self, patience: Duration, asked: usize) -> bool {
        let mut missing = self.listed.iter().filter(|host| !self.has_answered(host));
        self.listed.len() >= asked
            && missing.all(|host| {
                matches!(self.standings.get(&host.name),
                    Some(Standing::Refusing(since)) if since.elapsed() >= patience)
            })
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

/// The board and those who ask.
#[derive(Clone)]
pub(super) struct Callers {
    board: Arc<Mutex<Board>>,
    /// Someone may be due.
    work: Arc<Condvar>,
    /// Readable once someone has answered.
    pub(super) news: Arc<OwnedFd>,
}

impl Callers {
    /// They ask for ever; the process ends with the gate.
    pub(super) fn start(question: &Arc<Question>, asked: usize) -> Result<Self> {
        let callers = Self {
            board: Arc::default(),
            work: Arc::default(),
            news: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
        };
        for _ in 0..asked.min(CALLERS_MAX) {
            let (caller, question) = (callers.clone(), question.clone());
            std::thread::Builder::new()
                .stack_size(THREAD_STACK_BYTES)
                .spawn(move || caller.ask(&question))?;
        }
        Ok(callers)
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list(&self, hosts: Vec<Host>) {
        self.board().list(hosts);
        self.work.notify_all();
    }

    /// Forgets that there was news.
    pub(super) fn take_news(&self) {
        let mut count = [0; 8];
        // Nothing to read is no news.
        let _ = rustix::io::read(&*self.news, &mut count[..]);
    }

    fn ask(&self, question: &Question) {
        loop {
            let host = self.next();
            let answer = question.ask(&host);
            let answered = answer.is_ok();
            self.board().heard(host, answer);
            if answered {
                // Full means that there is news already.
                let _ = rustix::io::write(&*self.news, &1_u64.to_ne_bytes());
            }
        }
    }

    fn next(&self) -> Host {
        let mut board = self.board();
        loop {
            match board.next() {
                Ok(host) => return host,
                Err(wait) => {
                    let waited = self.work.wait_timeout(board, wait.min(IDLE_MAX));
                    board = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::parse;

    fn refused() -> Result<(), Silence> {
        Err(Silence::Refused(vec![22]))
    }

    #[test]
    fn a_worker_that_moved_has_to_answer_again() {
        let mut board = Board::default();
        board.list(parse("w0 10.0.0.1\nw1 10.0.0.2\n"));
        for _ in 0..2 {
            let host = board.next().unwrap();
            board.heard(host, Ok(()));
        }
        assert_eq!(board.answered().len(), 2);
        board.list(parse("w0 10.0.0.1\nw1 10.0.0.3\n"));
        assert_eq!(board.missing(), ["w1"]);
        let moved = board.next().unwrap();
        assert_eq!(moved.address, "10.0.0.3");
        assert!(board.next().is_err(), "w0 need not answer again");
        board.heard(parse("w1 10.0.0.2\n").remove(0), Ok(()));
        assert_eq!(board.missing(), ["w1"], "an answer from where it was");
        board.heard(moved, Ok(()));
        assert_eq!(board.missing(), [""; 0]);
        board.list(parse("w1 10.0.0.3\n"));
        assert_eq!((board.known(), board.answered().len()), (1, 1));
    }

    #[test]
    fn refusals_count_when_all_others_have_answered() {
        let mut board = Board::default();
        board.list(parse("w0 10.0.0.1\nw1 10.0.0.2\n"));
        let (first, second) = (board.next().unwrap(), board.next().unwrap());
        let gives_up = |board: &Board, asked| board.only_refusals_for(Duration::ZERO, asked);
        board.heard(first, Ok(()));
        assert!(!gives_up(&board, 2), "w1 was not asked yet");
        board.heard(second.clone(), refused());
        assert!(gives_up(&board, 2));
        assert!(!gives_up(&board, 3), "one has no address");
        assert!(!board.only_refusals_for(Duration::from_secs(60), 2));
        board.heard(second.clone(), Err(Silence::Other("no answer".into())));
        assert!(!gives_up(&board, 2));
        board.heard(second, refused());
        assert!(gives_up(&board, 2));
    }
}
