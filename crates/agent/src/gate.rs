//! `gate`: the launcher's init container. Holds it until every worker has *answered*: a hello over
//! TLS, or an SSH banner; a bare connection proves nothing. Decides when all are there and when to
//! give up; must not know what the launcher will do with them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::hosts::{Host, HostsFile};
use crate::identity::Client;
use crate::signals::Signals;
use crate::verdict::{Kind, Verdict};
use crate::wire::poll;
use crate::{call, contract};

/// Workers asked at the same time; more would only wait for the processor.
const CALLERS_MAX: usize = 64;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// A worker that did not answer is asked again after this long.
const RETRY_INTERVAL: Duration = Duration::from_millis(150);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
const PROGRESS_MIN: Duration = Duration::from_secs(1);
const SSH_ANSWER_MAX: Duration = Duration::from_secs(4);
const SSH_PORT: u16 = 22;
const NAMED_MAX: usize = 5;

/// How a worker is asked.
enum Question {
    Agent(Client),
    Ssh,
}

impl Question {
    fn of_environment() -> Result<Self> {
        let transport = contract::variable(contract::GATE_TRANSPORT);
        match transport.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("agent") => Ok(Self::Agent(Client::new()?)),
            Some("ssh") => Ok(Self::Ssh),
            Some(other) => bail!(
                "{} is {other:?}; agent and ssh are known",
                contract::GATE_TRANSPORT
            ),
        }
    }

    fn ask(&self, host: &Host) -> Result<()> {
        match self {
            Self::Agent(client) => {
                let address = host.socket_address(contract::port())?;
                let until = Instant::now() + SSH_ANSWER_MAX;
                call::once(client, address, until)?.close(until);
                Ok(())
            }
            Self::Ssh => ask_sshd(host),
        }
    }
}

/// A name may not resolve yet; that is one more way of not having answered.
fn ask_sshd(host: &Host) -> Result<()> {
    let addresses: Vec<SocketAddr> = match host.socket_address(SSH_PORT) {
        Ok(address) => vec![address],
        Err(_) if host.address.contains(':') => host.address.to_socket_addrs()?.collect(),
        Err(_) => (host.address.as_str(), SSH_PORT)
            .to_socket_addrs()?
            .collect(),
    };
    let address = addresses.first().context("its name has no address")?;
    let mut socket = TcpStream::connect_timeout(address, SSH_ANSWER_MAX)?;
    socket.set_read_timeout(Some(SSH_ANSWER_MAX))?;
    let mut banner = [0; 8];
    socket.read_exact(&mut banner)?;
    if !banner.starts_with(b"SSH-2.0") && &banner != b"SSH-1.99" {
        bail!("what answered is not an SSH server");
    }
    Ok(())
}

/// What is known of all workers.
#[derive(Default)]
struct Board {
    /// To be asked, not before their time.
    queue: VecDeque<(Instant, String)>,
    /// As last listed: a worker that was restarted has another address.
    listed: BTreeMap<String, Host>,
    answered: BTreeSet<String>,
    /// The last reason heard from anyone.
    reason: Option<String>,
}

#[derive(Clone, Default)]
struct Callers {
    board: Arc<Mutex<Board>>,
}

impl Callers {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whoever is due, for ever; the process ends with the gate.
    fn run(&self, question: &Question) {
        loop {
            let due = {
                let mut board = self.board();
                let now = Instant::now();
                let at = board.queue.iter().position(|(when, _)| *when <= now);
                let name = at.and_then(|at| board.queue.remove(at));
                name.and_then(|(_, name)| board.listed.get(&name).cloned())
            };
            let Some(host) = due else {
                std::thread::sleep(LOOK_INTERVAL);
                continue;
            };
            let answer = question.ask(&host);
            let mut board = self.board();
            match answer {
                Ok(()) => drop(board.answered.insert(host.name)),
                Err(error) => {
                    board.reason = Some(format!("{}: {error:#}", host.name));
                    let again = Instant::now() + RETRY_INTERVAL;
                    board.queue.push_back((again, host.name));
                }
            }
        }
    }

    fn list(&self, hosts: Vec<Host>) {
        let mut board = self.board();
        for host in hosts {
            let name = host.name.clone();
            if board.listed.insert(name.clone(), host).is_none() {
                board.queue.push_back((Instant::now(), name));
            }
        }
    }

    fn count(&self) -> usize {
        self.board().answered.len()
    }
}

/// Holds until all have answered. Returns the container's exit code.
pub(crate) fn run() -> Result<u8> {
    let begun = Instant::now();
    let signals = Signals::watch(&[SIGTERM, SIGINT])?;
    let question = Arc::new(Question::of_environment()?);
    let asked = contract::workers().with_context(|| format!("{} is not set", contract::WORKERS))?;
    let patience = contract::seconds(contract::GATE_TIMEOUT).filter(|time| !time.is_zero());
    let file = HostsFile::of_environment();
    let callers = Callers::default();
    for _ in 0..asked.min(CALLERS_MAX) {
        let (callers, question) = (callers.clone(), question.clone());
        std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn(move || callers.run(&question))?;
    }
    let mut progress = Progress::new();
    loop {
        callers.list(file.read());
        let answered = callers.count();
        if answered >= asked {
            let seconds = begun.elapsed().as_secs_f64();
            println!("all {asked} workers have answered after {seconds:.1} s");
            return Ok(0);
        }
        if patience.is_some_and(|patience| begun.elapsed() >= patience) {
            return Ok(give_up(&callers.board(), asked, begun.elapsed()));
        }
        progress.tell(&callers.board(), asked);
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        poll(&mut fds, LOOK_INTERVAL)?;
        if let Some(signal) = signals.take().first() {
            return Ok(128 | u8::try_from(signal & 0x7f).unwrap_or_default());
        }
    }
}

/// "waiting for 3 of 64 workers: …", when something changed and every few seconds.
struct Progress {
    told: Option<(Instant, usize)>,
}

impl Progress {
    fn new() -> Self {
        Self { told: None }
    }

    fn tell(&mut self, board: &Board, asked: usize) {
        let now = Instant::now();
        let due = self.told.is_none_or(|(when, answered)| {
            let since = now.duration_since(when);
            since >= PROGRESS_INTERVAL
                || (answered != board.answered.len() && since >= PROGRESS_MIN)
        });
        if due {
            self.told = Some((now, board.answered.len()));
            println!("{}", waiting_for(board, asked));
        }
    }
}

fn missing(board: &Board) -> Vec<String> {
    let open = board
        .listed
        .keys()
        .filter(|name| !board.answered.contains(*name));
    open.cloned().collect()
}

fn waiting_for(board: &Board, asked: usize) -> String {
    let missing = missing(board);
    let open = asked.saturating_sub(board.answered.len());
    let mut words: Vec<_> = missing.iter().take(NAMED_MAX).cloned().collect();
    if missing.len() > NAMED_MAX {
        words.push(format!("and {} more", missing.len() - NAMED_MAX));
    }
    let unlisted = asked.saturating_sub(board.listed.len());
    if unlisted > 0 {
        words.push(format!("{unlisted} without an address yet"));
    }
    let line = format!(
        "waiting for {open} of {asked} workers: {}",
        words.join(", ")
    );
    match &board.reason {
        Some(reason) => format!("{line} (last heard: {reason})"),
        None => line,
    }
}

fn give_up(board: &Board, asked: usize, waited: Duration) -> u8 {
    let message = format!(
        "gave up after {} s {}",
        waited.as_secs(),
        waiting_for(board, asked)
    );
    eprintln!("muster-agent: {message}");
    let verdict = Verdict {
        kind: Kind::GateDeadline,
        exit: contract::EXIT_GATE_DEADLINE,
        hosts: board.answered.len(),
        asked: Some(asked),
        ranks_per_host: [].into(),
        lost: missing(board),
        message,
    };
    verdict.write();
    verdict.exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_some_and_counts_the_rest() {
        let listed = crate::hosts::parse(
            &(0..8)
                .map(|n| format!("w{n} 10.0.0.{n}\n"))
                .collect::<String>(),
        );
        let mut board = Board {
            listed: listed
                .into_iter()
                .map(|host| (host.name.clone(), host))
                .collect(),
            answered: ["w0".to_owned()].into(),
            ..Board::default()
        };
        assert_eq!(
            waiting_for(&board, 10),
            "waiting for 9 of 10 workers: w1, w2, w3, w4, w5, and 2 more, \
             2 without an address yet"
        );
        board.reason = Some("w1: connection refused".into());
        assert!(waiting_for(&board, 8).ends_with("(last heard: w1: connection refused)"));
    }
}
