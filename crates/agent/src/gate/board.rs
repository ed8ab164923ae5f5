//! What is known of all workers while the gate is closed, and the threads that ask them. Decides who
//! is asked next and when everyone has answered; must not know how a worker is asked.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Something may yet come of a worker that does other than refuse, but not for ever: packets may be
/// dropped on the way, or another program may listen on the port.
pub(super) const SILENCE_FACTOR: u32 = 3;

/// One worker at the address that it was listed with.
struct Standing {
    listed: Instant,
    said: Said,
}

/// What it said last.
enum Said {
    /// It was not asked yet.
    Nothing,
    Answer,
    /// Since when it has refused without a pause.
    Refusal(Instant),
    Other,
}

/// Workers that will not answer, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hopeless {
    pub(super) refusing: Vec<String>,
    pub(super) silent: Vec<String>,
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
                let standing = Standing {
                    listed: now,
                    said: Said::Nothing,
                };
                self.standings.insert(host.name.clone(), standing);
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
        if let Some(standing) = self.standings.get_mut(&host.name) {
            standing.said = match (&answer, &standing.said) {
                (Ok(()), _) => Said::Answer,
                (Err(Silence::Refused(_)), Said::Refusal(since)) => Said::Refusal(*since),
                (Err(Silence::Refused(_)), _) => Said::Refusal(now),
                (Err(Silence::Other(_)), _) => Said::Other,
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
        let standing = self.standings.get(&host.name);
        standing.is_some_and(|standing| matches!(standing.said, Said::Answer))
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
            let standing = self.standings.get(&host.name)?;
            let name = host.name.clone();
            match standing.said {
                Said::Refusal(since) if since.elapsed() >= patience => hopeless.refusing.push(name),
                Said::Refusal(_) | Said::Other
                    if standing.listed.elapsed() >= patience * SILENCE_FACTOR =>
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
    board: Mutex<Board>,
    /// Someone may be due, or nobody is to be asked any more.
    work: Condvar,
    /// Readable once someone has answered.
    news: OwnedFd,
    closed: AtomicBool,
}

/// The board and those who ask, until this is dropped.
pub(super) struct Callers {
    shared: Arc<Shared>,
    question: Arc<Question>,
    started: usize,
}

impl Drop for Callers {
    /// Who is asking right now ends when that is done.
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.work.notify_all();
    }
}

impl Callers {
    pub(super) fn new(question: Arc<Question>) -> Result<Self> {
        let shared = Arc::new(Shared {
            board: Mutex::default(),
            work: Condvar::new(),
            news: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            closed: AtomicBool::new(false),
        });
        Ok(Self {
            shared,
            question,
            started: 0,
        })
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.shared.board()
    }

    pub(super) fn news(&self) -> &OwnedFd {
        &self.shared.news
    }

    /// As many ask as there are workers, within reason.
    pub(super) fn list(&mut self, hosts: Vec<Host>) -> Result<()> {
        let wanted = hosts.len().min(CALLERS_MAX);
        self.board().list(hosts);
        self.shared.work.notify_all();
        while self.started < wanted {
            let (shared, question) = (self.shared.clone(), self.question.clone());
            std::thread::Builder::new()
                .stack_size(THREAD_STACK_BYTES)
                .spawn(move || shared.ask(&question))?;
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
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, question: &Question) {
        while let Some(host) = self.next() {
            let answer = question.ask(&host);
            let answered = answer.is_ok();
            self.board().heard(host, answer);
            if answered {
                // Full means that there is news already.
                let _ = rustix::io::write(&self.news, &1_u64.to_ne_bytes());
            }
        }
    }

    fn next(&self) -> Option<Host> {
        let mut board = self.board();
        while !self.closed.load(Ordering::SeqCst) {
            match board.next() {
                Ok(host) => return Some(host),
                Err(wait) => {
                    let waited = self.work.wait_timeout(board, wait.min(IDLE_MAX));
                    board = waited.unwrap_or_else(PoisonError::into_inner).0;
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

    fn silent() -> Result<(), Silence> {
        Err(Silence::Other("no answer".into()))
    }

    #[test]
    fn refusals_count_when_all_others_have_answered() {
        let mut board = Board::default();
        board.list(parse("w0 10.0.0.1\nw1 10.0.0.2\n"));
        let (first, second) = (board.next().unwrap(), board.next().unwrap());
        let refusing = |board: &Board, asked| {
            let hopeless = board.hopeless(Duration::ZERO, asked);
            hopeless.is_some_and(|hopeless| hopeless.refusing == ["w1"])
        };
        board.heard(first, Ok(()));
        assert!(!refusing(&board, 2), "w1 was not asked yet");
        board.heard(second.clone(), refused());
        assert!(refusing(&board, 2));
        assert!(!refusing(&board, 3), "one has no address");
        assert_eq!(board.hopeless(PATIENCE, 2), None);
        board.heard(second.clone(), silent());
        assert!(!refusing(&board, 2));
        board.heard(second, refused());
        assert!(refusing(&board, 2));
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    impl Board {
        /// As if all had been listed so long ago.
        fn listed_ago(&mut self, ago: Duration) {
            for standing in self.standings.values_mut() {
                standing.listed = standing.listed.checked_sub(ago).unwrap();
            }
        }
    }

    #[test]
    fn a_worker_that_never_says_what_an_sshd_says_is_not_waited_for_for_ever() {
        let mut board = Board::default();
        board.list(parse("w0 10.0.0.1\n"));
        let host = board.next().unwrap();
        board.listed_ago(PATIENCE * 3);
        assert_eq!(board.hopeless(PATIENCE, 1), None, "not asked yet");
        board.heard(host.clone(), silent());
        let gone = Hopeless {
            refusing: vec![],
            silent: vec!["w0".into()],
        };
        assert_eq!(board.hopeless(PATIENCE, 1), Some(gone));
        assert_eq!(board.hopeless(PATIENCE * 2, 1), None);
        // Now silent, now refusing: no less hopeless.
        board.heard(host.clone(), refused());
        assert!(board.hopeless(PATIENCE, 1).is_some());
        // Its successor has its own time.
        board.list(parse("w0 10.0.0.2\n"));
        board.heard(board.listed[0].clone(), silent());
        assert_eq!(board.hopeless(PATIENCE, 1), None);
        board.heard(board.listed[0].clone(), Ok(()));
        let nobody = Some(Hopeless::default());
        assert_eq!(board.hopeless(PATIENCE, 1), nobody);
    }
}
