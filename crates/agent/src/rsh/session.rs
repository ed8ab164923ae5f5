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
use crate::frame_stream::{FrameStream, StreamError};
use crate::output::Output;
use crate::poll::poll;
use crate::signals::Signals;

const GOODBYE_MAX: Duration = Duration::from_millis(500);

/// How a session came to its end.
pub(super) enum SessionEnd {
    Ended(Ending),
    Refused(String),
    Lost(StreamError),
    Stopped(i32),
}

/// What a worker says while the command's output is still under way.
pub(super) enum WorkerEvent {
    Rank(u32, RankState),
    Failed(Ending),
}

impl From<StreamError> for SessionEnd {
    fn from(error: StreamError) -> Self {
        Self::Lost(error)
    }
}

pub(super) struct Session {
    stream: FrameStream,
    signals: Signals,
    reads_stdin: bool,
    out: Output,
    err: Output,
}

impl Session {
    pub(super) fn new(stream: FrameStream, signals: Signals, reads_stdin: bool) -> Self {
        Self {
            stream,
            signals,
            // A process in the background is stopped when it reads from a terminal.
            reads_stdin: reads_stdin && !(io::stdin().is_terminal() && in_background()),
            out: Output::new(stdout()),
            err: Output::new(stderr()),
        }
    }

    /// Until the command has ended and its output was written, or nothing more can come.
    pub(super) fn run(mut self, mut on_event: impl FnMut(WorkerEvent)) -> SessionEnd {
        if !self.reads_stdin
            && let Err(error) = self.stream.send(&Frame::StdinEnd)
        {
            return error.into();
        }
        let outcome = loop {
            match self.turn(&mut on_event) {
                Ok(()) => {}
                Err(outcome) => break outcome,
            }
        };
        if matches!(outcome, SessionEnd::Ended(_) | SessionEnd::Refused(_)) {
            self.out.write_all();
            self.err.write_all();
        }
        self.stream.close(Instant::now() + GOODBYE_MAX);
        outcome
    }

    fn turn(&mut self, on_event: &mut impl FnMut(WorkerEvent)) -> Result<(), SessionEnd> {
        let listening = self.out.has_room() && self.err.has_room();
        let wait = self.stream.keep_alive(listening)?;
        let reads = self.reads_stdin && !self.stream.has_backlog();
        let flags = |wanted, flags| if wanted { flags } else { PollFlags::empty() };
        let standard_input = stdin();
        let mut fds = vec![
            PollFd::new(&self.stream, self.stream.interest(listening)),
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
        poll(&mut fds, wait).map_err(StreamError::from)?;
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let (input, out, err) = (ready(input), ready(out), ready(err));
        let ready = fds[0].revents();

        self.obey_signals()?;
        self.stream.pump(ready)?;
        while let Some(frame) = self.stream.next_frame()? {
            self.take(frame, on_event)?;
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
    fn obey_signals(&mut self) -> Result<(), SessionEnd> {
        for signal in self.signals.take() {
            match (signal, u8::try_from(signal)) {
                (SIGUSR1 | SIGUSR2, Ok(number)) => self.stream.send(&Frame::Signal(number))?,
                _ => return Err(SessionEnd::Stopped(signal)),
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        frame: Frame,
        on_event: &mut impl FnMut(WorkerEvent),
    ) -> Result<(), SessionEnd> {
        match frame {
            Frame::Stdout(bytes) => self.out.take(bytes),
            Frame::Stderr(bytes) => self.err.take(bytes),
            Frame::Rank(rank, state) => on_event(WorkerEvent::Rank(rank, state)),
            Frame::Failed(ending) => on_event(WorkerEvent::Failed(ending)),
            Frame::Exit(ending) => return Err(SessionEnd::Ended(ending)),
            Frame::Refusal(why) => return Err(SessionEnd::Refused(why)),
            _ => {}
        }
        Ok(())
    }

    fn pass_input_on(&mut self) -> Result<(), SessionEnd> {
        let mut bytes = vec![0; DATA_BYTES_MAX];
        match rustix::io::read(stdin(), &mut bytes[..]) {
            Ok(taken) if taken > 0 => {
                bytes.truncate(taken);
                self.stream.send(&Frame::Stdin(bytes))?;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(_) | Err(_) => {
                self.reads_stdin = false;
                self.stream.send(&Frame::StdinEnd)?;
            }
        }
        Ok(())
    }
}

/// Who reads no more ends the command, as with ssh.
fn unwritable(error: Errno) -> SessionEnd {
    match error {
        Errno::PIPE => SessionEnd::Stopped(SIGPIPE),
        error => StreamError::Io(error.into()).into(),
    }
}

pub(crate) fn in_background() -> bool {
    use rustix::process::getpgrp;
    rustix::termios::tcgetpgrp(stdin()).is_ok_and(|foreground| foreground != getpgrp())
}
