//! Bytes between this process and the worker while the command runs. Decides who waits for whom:
//! nothing is read that cannot be passed on. Must not know what the outcome means to a launcher.

use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdin, stdout};
use signal_hook::consts::{SIGPIPE, SIGUSR1, SIGUSR2};

use crate::frame::{DATA_BYTES_MAX, Ending, Frame, RankState};
use crate::output::Output;
use crate::signals::Signals;
use crate::wire::{Wire, WireError, poll};

const GOODBYE_MAX: Duration = Duration::from_millis(500);

/// How a session came to its end.
pub(super) enum Outcome {
    Ended(Ending),
    Refused(String),
    Lost(WireError),
    Stopped(i32),
}

/// What a worker says while the command's output is still under way.
pub(super) enum News {
    Rank(u32, RankState),
    Failed(Ending),
}

impl From<WireError> for Outcome {
    fn from(error: WireError) -> Self {
        Self::Lost(error)
    }
}

pub(super) struct Stream {
    wire: Wire,
    signals: Signals,
    reads_stdin: bool,
    out: Output,
    err: Output,
}

impl Stream {
    pub(super) fn new(wire: Wire, signals: Signals, reads_stdin: bool) -> Self {
        Self {
            wire,
            signals,
            // A process in the background is stopped when it reads from a terminal.
            reads_stdin: reads_stdin && !(io::stdin().is_terminal() && in_background()),
            out: Output::new(stdout()),
            err: Output::new(stderr()),
        }
    }

    /// Until the command has ended and its output was written, or nothing more can come.
    pub(super) fn run(mut self, mut on_news: impl FnMut(News)) -> Outcome {
        if !self.reads_stdin
            && let Err(error) = self.wire.send(&Frame::StdinEnd)
        {
            return error.into();
        }
        let outcome = loop {
            match self.turn(&mut on_news) {
                Ok(()) => {}
                Err(outcome) => break outcome,
            }
        };
        if matches!(outcome, Outcome::Ended(_) | Outcome::Refused(_)) {
            self.out.write_all();
            self.err.write_all();
        }
        self.wire.close(Instant::now() + GOODBYE_MAX);
        outcome
    }

    fn turn(&mut self, on_news: &mut impl FnMut(News)) -> Result<(), Outcome> {
        let listening = self.out.has_room() && self.err.has_room();
        let wait = self.wire.keep_alive(listening)?;
        let reads = self.reads_stdin && !self.wire.has_backlog();
        let flags = |wanted, flags| if wanted { flags } else { PollFlags::empty() };
        let standard_input = stdin();
        let mut fds = vec![
            PollFd::new(&self.wire, self.wire.interest(listening)),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        let mut add = |fd: BorrowedFd<'static>, wanted: bool, events| {
            // A closed descriptor reports itself even when nobody asks; leave it out.
            wanted.then(|| {
                fds.push(PollFd::from_borrowed_fd(fd, flags(wanted, events)));
                fds.len() - 1
            })
        };
        let input = add(standard_input, reads, PollFlags::IN);
        let out = add(self.out.fd, self.out.waits(), PollFlags::OUT);
        let err = add(self.err.fd, self.err.waits(), PollFlags::OUT);
        poll(&mut fds, wait).map_err(WireError::from)?;
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let (input, out, err) = (ready(input), ready(out), ready(err));
        let ready = fds[0].revents();

        self.obey_signals()?;
        self.wire.pump(ready)?;
        while let Some(frame) = self.wire.next_frame()? {
            self.take(frame, on_news)?;
        }
        if input {
            self.pass_input_on()?;
        }
        for (ready, output) in [(out, &mut self.out), (err, &mut self.err)] {
            if ready {
                output.write_some().map_err(unwritable)?;
            }
        }
        Ok(())
    }

    /// The launcher ends its shim: the worker sees the connection end and ends the tree.
    fn obey_signals(&mut self) -> Result<(), Outcome> {
        for signal in self.signals.take() {
            match (signal, u8::try_from(signal)) {
                (SIGUSR1 | SIGUSR2, Ok(number)) => self.wire.send(&Frame::Signal(number))?,
                _ => return Err(Outcome::Stopped(signal)),
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame, on_news: &mut impl FnMut(News)) -> Result<(), Outcome> {
        match frame {
            Frame::Stdout(bytes) => self.out.take(bytes),
            Frame::Stderr(bytes) => self.err.take(bytes),
            Frame::Rank(rank, state) => on_news(News::Rank(rank, state)),
            Frame::Failed(ending) => on_news(News::Failed(ending)),
            Frame::Exit(ending) => return Err(Outcome::Ended(ending)),
            Frame::Refusal(why) => return Err(Outcome::Refused(why)),
            _ => {}
        }
        Ok(())
    }

    fn pass_input_on(&mut self) -> Result<(), Outcome> {
        let mut bytes = vec![0; DATA_BYTES_MAX];
        match rustix::io::read(stdin(), &mut bytes[..]) {
            Ok(taken) if taken > 0 => {
                bytes.truncate(taken);
                self.wire.send(&Frame::Stdin(bytes))?;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(_) | Err(_) => {
                self.reads_stdin = false;
                self.wire.send(&Frame::StdinEnd)?;
            }
        }
        Ok(())
    }
}

/// Who reads no more ends the command, as with ssh.
fn unwritable(error: Errno) -> Outcome {
    match error {
        Errno::PIPE => Outcome::Stopped(SIGPIPE),
        error => WireError::Io(error.into()).into(),
    }
}

pub(crate) fn in_background() -> bool {
    use rustix::process::getpgrp;
    rustix::termios::tcgetpgrp(stdin()).is_ok_and(|foreground| foreground != getpgrp())
}
