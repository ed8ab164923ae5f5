//! `gate`: the launcher's init container. Holds it until every worker has *answered*; a bare
//! connection proves nothing. Decides when all are there and when to give up, then leaves host
//! lists for the launcher; must not know what the launcher will do with them.

mod board;
mod question;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::hosts::{Host, HostsFile};
use crate::signals::Signals;
use crate::verdict::{Kind, Verdict};
use crate::wire::poll;
use crate::{contract, host_lists};
use board::{Board, Callers};
use question::{Question, ports_words};

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
const PROGRESS_MIN: Duration = Duration::from_secs(1);
const SSH_PATIENCE_DEFAULT: Duration = Duration::from_secs(60);
const NAMED_MAX: usize = 5;

/// How long the gate waits.
struct Patience {
    /// For everyone to answer, if not for ever.
    all: Option<Duration>,
    /// For SSH workers that refuse.
    refusals: Duration,
}

/// Holds until all have answered. Returns the container's exit code.
pub(crate) fn run() -> Result<u8> {
    let begun = Instant::now();
    let signals = Signals::watch(&[SIGTERM, SIGINT])?;
    let question = Arc::new(Question::of_environment()?);
    let asked = contract::workers().with_context(|| format!("{} is not set", contract::WORKERS))?;
    let patience = Patience {
        all: contract::seconds(contract::GATE_TIMEOUT).filter(|time| !time.is_zero()),
        refusals: contract::seconds(contract::SSH_PATIENCE).unwrap_or(SSH_PATIENCE_DEFAULT),
    };
    let file = HostsFile::of_environment();
    let callers = Callers::start(&question, asked)?;
    let mut progress = Progress::new();
    loop {
        callers.list(file.read());
        let answered = callers.board().answered();
        if answered.len() >= asked {
            let seconds = begun.elapsed().as_secs_f64();
            println!("all {asked} workers have answered after {seconds:.1} s");
            return opened(&answered);
        }
        if patience.all.is_some_and(|all| begun.elapsed() >= all) {
            return Ok(give_up(&callers.board(), asked, begun.elapsed()));
        }
        if let Question::Ssh { ports } = &*question
            && callers.board().only_refusals_for(patience.refusals, asked)
        {
            let board = callers.board();
            eprintln!("muster-agent: {}", let_go(&board, ports, patience.refusals));
            return opened(&board.listed());
        }
        progress.tell(&callers.board(), asked);
        let mut fds = [
            PollFd::new(&signals, PollFlags::IN),
            PollFd::new(&*callers.news, PollFlags::IN),
        ];
        poll(&mut fds, LOOK_INTERVAL)?;
        callers.take_news();
        if let Some(signal) = signals.take().first() {
            return Ok(128 | u8::try_from(signal & 0x7f).unwrap_or_default());
        }
    }
}

/// What the launcher finds when it starts.
fn opened(workers: &[Host]) -> Result<u8> {
    host_lists::write_as_asked(workers)?;
    Ok(0)
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
        let heard_of = board.answered().len();
        let due = self.told.is_none_or(|(when, before)| {
            let since = now.duration_since(when);
            since >= PROGRESS_INTERVAL || (heard_of != before && since >= PROGRESS_MIN)
        });
        if due {
            self.told = Some((now, heard_of));
            println!("{}", waiting_for(board, asked));
        }
    }
}

/// The first few, and how many more there are.
fn named(names: &[String]) -> Vec<String> {
    let mut words: Vec<_> = names.iter().take(NAMED_MAX).cloned().collect();
    if names.len() > NAMED_MAX {
        words.push(format!("and {} more", names.len() - NAMED_MAX));
    }
    words
}

fn waiting_for(board: &Board, asked: usize) -> String {
    let open = asked.saturating_sub(board.answered().len());
    let mut words = named(&board.missing());
    let unlisted = asked.saturating_sub(board.known());
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

/// Nobody may have told us where an image's sshd listens; a gate must not be worse than none.
fn let_go(board: &Board, ports: &[u16], patience: Duration) -> String {
    format!(
        "{} refused every connection on {} for {} s: no sshd listens there. Starting the launcher \
         all the same; if it listens on another port, set spec.muster.sshPort",
        named(&board.missing()).join(", "),
        ports_words(ports),
        patience.as_secs()
    )
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
        signal: None,
        hosts: board.answered().len(),
        asked: Some(asked),
        ranks_per_host: [].into(),
        lost: board.missing(),
        message,
    };
    verdict.write();
    verdict.exit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(workers: usize) -> Board {
        let mut board = Board::default();
        let lines = (0..workers).map(|n| format!("w{n} 10.0.0.{n}\n"));
        board.list(crate::hosts::parse(&lines.collect::<String>()));
        board
    }

    #[test]
    fn progress_names_some_and_counts_the_rest() {
        let mut board = board(7);
        assert_eq!(
            waiting_for(&board, 9),
            "waiting for 9 of 9 workers: w0, w1, w2, w3, w4, and 2 more, \
             2 without an address yet"
        );
        board.reason = Some("w1: connection refused".into());
        assert!(waiting_for(&board, 7).ends_with("(last heard: w1: connection refused)"));
    }

    #[test]
    fn letting_go_says_who_and_what_to_set() {
        let line = let_go(&board(2), &[22, 2222], Duration::from_secs(60));
        assert!(
            line.starts_with("w0, w1 refused every connection on ports 22 and 2222 for 60 s"),
            "{line}"
        );
        assert!(line.ends_with("set spec.muster.sshPort"), "{line}");
    }
}
