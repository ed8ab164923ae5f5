//! The loop between our standard streams and a command that runs elsewhere. Decides which side waits:
//! nothing is read that cannot be passed on. Must not know the protocol that the other side speaks.

use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdin, stdout};
use signal_hook::consts::SIGPIPE;

use crate::output::Output;
use crate::poll::poll;
use crate::signals::Signals;
use crate::socket::{Socket, StreamError};

const INPUT_BYTES_MAX: usize = 32 * 1024;

/// Why a relay ended.
pub(crate) enum RelayEnd<T> {
    /// The other side ended it.
    Remote(T),
    /// We were told to stop, or nobody reads our output any more.
    Signal(i32),
    Lost(StreamError),
}

impl<T> From<StreamError> for RelayEnd<T> {
    fn from(error: StreamError) -> Self {
        Self::Lost(error)
    }
}

/// The connection to the command.
pub(crate) trait Remote {
    /// How the other side ends a relay.
    type Outcome;

    fn socket(&self) -> &Socket;

    /// Sends pings, and fails once the other side counts as lost. Returns how long until the next call
    /// is due at the latest.
    fn keep_alive(&mut self, listening: bool) -> Result<Duration, RelayEnd<Self::Outcome>>;

    /// Reads and writes what poll found possible, and hands over the command's output.
    fn pump(
        &mut self,
        ready: PollFlags,
        outputs: &mut Outputs,
    ) -> Result<(), RelayEnd<Self::Outcome>>;

    /// Whether the other side can take more input now.
    fn takes_input(&self) -> bool {
        !self.socket().has_backlog()
    }

    /// Sends input; no bytes are its end.
    fn send_input(&mut self, bytes: &[u8]) -> Result<(), StreamError>;

    /// Passes a signal on, if it is not meant to end the relay.
    fn signal(&mut self, signal: i32) -> Result<(), RelayEnd<Self::Outcome>> {
        Err(RelayEnd::Signal(signal))
    }
}

/// Our standard output and standard error.
pub(crate) struct Outputs {
    pub(crate) out: Output,
    pub(crate) err: Output,
}

impl Outputs {
    fn has_room(&self) -> bool {
        self.out.has_room() && self.err.has_room()
    }

    /// Waits for the readers until everything is written.
    pub(crate) fn write_all(&mut self) {
        self.out.write_all();
        self.err.write_all();
    }
}

/// Relays until either side ends it. Also returns the output that is not written yet.
pub(crate) fn run<R: Remote>(
    remote: &mut R,
    signals: &Signals,
    reads_input: bool,
) -> (RelayEnd<R::Outcome>, Outputs) {
    let mut relay = Relay {
        remote,
        signals,
        // A process in the background is stopped when it reads from a terminal.
        reads_input: reads_input && !(io::stdin().is_terminal() && in_background()),
        outputs: Outputs {
            out: Output::new(stdout()),
            err: Output::new(stderr()),
        },
    };
    (relay.run(), relay.outputs)
}

struct Relay<'r, R> {
    remote: &'r mut R,
    signals: &'r Signals,
    reads_input: bool,
    outputs: Outputs,
}

impl<R: Remote> Relay<'_, R> {
    fn run(&mut self) -> RelayEnd<R::Outcome> {
        if !self.reads_input
            && let Err(error) = self.remote.send_input(&[])
        {
            return error.into();
        }
        loop {
            if let Err(end) = self.turn() {
                return end;
            }
        }
    }

    fn turn(&mut self) -> Result<(), RelayEnd<R::Outcome>> {
        let listening = self.outputs.has_room();
        let wait = self.remote.keep_alive(listening)?;
        let mut fds = vec![
            PollFd::new(
                self.remote.socket(),
                self.remote.socket().interest(listening),
            ),
            PollFd::new(self.signals, PollFlags::IN),
        ];
        let mut add = |fd: BorrowedFd<'static>, wanted: bool, events| {
            // A closed descriptor reports itself even when nobody asks; leave it out.
            wanted.then(|| {
                fds.push(PollFd::from_borrowed_fd(fd, events));
                fds.len() - 1
            })
        };
        let Outputs { out, err } = &self.outputs;
        let reads = self.reads_input && self.remote.takes_input();
        let input = add(stdin(), reads, PollFlags::IN);
        let out = add(out.fd, out.waits(), PollFlags::OUT);
        let err = add(err.fd, err.waits(), PollFlags::OUT);
        poll(&mut fds, wait).map_err(StreamError::from)?;
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let (input, out, err) = (ready(input), ready(out), ready(err));
        let ready = fds[0].revents();

        for signal in self.signals.take() {
            self.remote.signal(signal)?;
        }
        self.remote.pump(ready, &mut self.outputs)?;
        if input {
            self.pass_input_on()?;
        }
        let Outputs {
            out: stdout,
            err: stderr,
        } = &mut self.outputs;
        for (ready, output) in [(out, stdout), (err, stderr)] {
            if ready {
                output.write_some().map_err(unwritable)?;
            }
        }
        Ok(())
    }

    fn pass_input_on(&mut self) -> Result<(), StreamError> {
        let mut bytes = vec![0; INPUT_BYTES_MAX];
        match rustix::io::read(stdin(), &mut bytes[..]) {
            Ok(taken) if taken > 0 => self.remote.send_input(&bytes[..taken]),
            Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Ok(_) | Err(_) => {
                self.reads_input = false;
                self.remote.send_input(&[])
            }
        }
    }
}

/// A reader that closes our output ends the command, as with ssh.
fn unwritable<T>(error: Errno) -> RelayEnd<T> {
    match error {
        Errno::PIPE => RelayEnd::Signal(SIGPIPE),
        error => StreamError::Io(error.into()).into(),
    }
}

fn in_background() -> bool {
    use rustix::process::getpgrp;
    rustix::termios::tcgetpgrp(stdin()).is_ok_and(|foreground| foreground != getpgrp())
}
