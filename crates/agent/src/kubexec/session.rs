//! Bytes between this process and a command that runs behind the API server. Decides who waits for
//! whom: nothing is read that cannot be passed on. The command's end is said on a channel of its own,
//! and may overtake its last output, so only the end of the connection is the end.

use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdin, stdout};
use signal_hook::consts::SIGPIPE;

use super::status;
use super::web_socket::{Incoming, SocketError, WebSocket};
use crate::output::Output;
use crate::poll::poll;
use crate::rsh::session::in_background;
use crate::signals::Signals;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Followed by the channel that ends.
const END: u8 = 255;

const INPUT_BYTES_MAX: usize = 32 * 1024;
/// A server that has said how the command ended has nothing left to say after this long.
const GOODBYE_MAX: Duration = Duration::from_secs(10);

/// How a session came to its end.
pub(super) enum SessionEnd {
    Ended(u8),
    Stopped(i32),
}

/// What ends a turn for good.
enum End {
    Closed,
    Stopped(i32),
    Lost(SocketError),
}

impl From<SocketError> for End {
    fn from(error: SocketError) -> Self {
        Self::Lost(error)
    }
}

pub(super) struct Session {
    socket: WebSocket,
    signals: Signals,
    reads_stdin: bool,
    out: Output,
    err: Output,
    /// The channel of the message that is under way.
    channel: Option<u8>,
    said: Vec<u8>,
    said_at: Option<Instant>,
}

impl Session {
    pub(super) fn new(socket: WebSocket, signals: Signals) -> Self {
        Self {
            socket,
            signals,
            // A process in the background is stopped when it reads from a terminal.
            reads_stdin: !(io::stdin().is_terminal() && in_background()),
            out: Output::new(stdout()),
            err: Output::new(stderr()),
            channel: None,
            said: Vec::new(),
            said_at: None,
        }
    }

    /// Until the command has ended and its output was written.
    pub(super) fn run(mut self) -> Result<SessionEnd> {
        let end = loop {
            if let Err(end) = self.turn() {
                break end;
            }
        };
        let lost = match end {
            End::Stopped(signal) => {
                self.socket.close();
                return Ok(SessionEnd::Stopped(signal));
            }
            End::Closed => None,
            End::Lost(error) => Some(error),
        };
        self.out.write_all();
        self.err.write_all();
        if self.said_at.is_some() {
            let code = status::exit_code(&self.said)?;
            self.socket.close();
            return Ok(SessionEnd::Ended(code));
        }
        match lost {
            Some(error) => Err(error).context("the connection was lost while the command ran"),
            None => anyhow::bail!("the connection was closed while the command ran"),
        }
    }

    fn turn(&mut self) -> Result<(), End> {
        let listening = self.out.has_room() && self.err.has_room();
        let mut wait = self.socket.keep_alive(listening)?;
        if let Some(at) = self.said_at {
            let left = GOODBYE_MAX.saturating_sub(at.elapsed());
            if left.is_zero() && listening {
                return Err(End::Closed);
            }
            // Otherwise it is the reader of our output that is waited for.
            if listening {
                wait = wait.min(left);
            }
        }
        let reads = self.reads_stdin && !self.socket.has_backlog() && self.said_at.is_none();
        let mut fds = vec![
            PollFd::new(&self.socket, self.socket.interest(listening)),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        let mut add = |fd: BorrowedFd<'static>, wanted: bool, events| {
            // A closed descriptor reports itself even when nobody asks; leave it out.
            wanted.then(|| {
                fds.push(PollFd::from_borrowed_fd(fd, events));
                fds.len() - 1
            })
        };
        let input = add(stdin(), reads, PollFlags::IN);
        let out = add(self.out.fd, self.out.waits(), PollFlags::OUT);
        let err = add(self.err.fd, self.err.waits(), PollFlags::OUT);
        poll(&mut fds, wait).map_err(|error| SocketError::Stream(error.into()))?;
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let (input, out, err) = (ready(input), ready(out), ready(err));
        let ready = fds[0].revents();

        // The launcher ends its remote shell; what runs behind the API server ends by itself.
        if let Some(signal) = self.signals.take().into_iter().next() {
            return Err(End::Stopped(signal));
        }
        self.socket.pump(ready)?;
        while let Some(incoming) = self.socket.next()? {
            self.take(incoming)?;
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

    fn take(&mut self, incoming: Incoming) -> Result<(), End> {
        let bytes = match incoming {
            Incoming::Close => return Err(End::Closed),
            Incoming::More(bytes) => bytes,
            Incoming::Begin(bytes) => {
                let mut bytes = bytes.into_iter();
                self.channel = bytes.next();
                bytes.collect()
            }
        };
        match self.channel {
            Some(STDOUT) => self.out.take(bytes),
            Some(STDERR) => self.err.take(bytes),
            // An empty one only says that the channel is there.
            Some(STATUS) if !bytes.is_empty() => {
                self.said.extend(bytes);
                self.said_at.get_or_insert_with(Instant::now);
            }
            _ => {}
        }
        Ok(())
    }

    fn pass_input_on(&mut self) -> Result<(), End> {
        let mut bytes = vec![0; INPUT_BYTES_MAX];
        bytes[0] = STDIN;
        match rustix::io::read(stdin(), &mut bytes[1..]) {
            Ok(taken) if taken > 0 => {
                bytes.truncate(1 + taken);
                self.socket.send(&bytes)?;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(_) | Err(_) => {
                self.reads_stdin = false;
                if self.socket.ends_input {
                    self.socket.send(&[END, STDIN])?;
                }
            }
        }
        Ok(())
    }
}

/// Who reads no more ends the call, as with ssh.
fn unwritable(error: Errno) -> End {
    match error {
        Errno::PIPE => End::Stopped(SIGPIPE),
        error => End::Lost(SocketError::Stream(crate::frame_stream::StreamError::Io(
            error.into(),
        ))),
    }
}
