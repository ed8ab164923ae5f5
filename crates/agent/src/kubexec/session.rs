//! A command that runs behind the API server: channels of a WebSocket in both directions. Decides when
//! the command is over: its end is reported on a channel of its own, and may overtake its last output,
//! so only the end of the connection is the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::PollFlags;

use super::status;
use super::web_socket::{Incoming, WebSocket};
use crate::relay::{self, Outputs, RelayEnd, Remote};
use crate::signals::Signals;
use crate::socket::{Socket, StreamError};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Followed by the channel that ends.
const END: u8 = 255;

/// A server that has reported the command's end sends nothing more after this long.
const GOODBYE_MAX: Duration = Duration::from_secs(10);

/// How a session ended.
pub(super) enum SessionEnd {
    Exited(u8),
    Stopped(i32),
}

/// Runs until the command has ended and its output was written.
pub(super) fn run(web_socket: WebSocket, signals: &Signals) -> Result<SessionEnd> {
    let mut session = Session {
        web_socket,
        channel: None,
        status: Vec::new(),
        status_at: None,
    };
    let (end, mut outputs) = relay::run(&mut session, signals, true);
    if let RelayEnd::Signal(signal) = end {
        session.web_socket.close();
        return Ok(SessionEnd::Stopped(signal));
    }
    outputs.write_all();
    if session.status_at.is_some() {
        let code = status::exit_code(&session.status)?;
        session.web_socket.close();
        return Ok(SessionEnd::Exited(code));
    }
    match end {
        RelayEnd::Lost(error) => {
            Err(error).context("the connection was lost while the command ran")
        }
        _ => bail!("the connection was closed while the command ran"),
    }
}

struct Session {
    web_socket: WebSocket,
    /// The channel of the message that is under way.
    channel: Option<u8>,
    /// What the server reported about the command's end, and since when.
    status: Vec<u8>,
    status_at: Option<Instant>,
}

impl Remote for Session {
    /// The server closed the connection.
    type Outcome = ();

    fn socket(&self) -> &Socket {
        &self.web_socket.socket
    }

    fn keep_alive(&mut self, listening: bool) -> Result<Duration, RelayEnd<()>> {
        let wait = self.web_socket.keep_alive(listening)?;
        // While we do not listen, it is the reader of our output that we wait for.
        match self.status_at.filter(|_| listening) {
            Some(at) => match GOODBYE_MAX.saturating_sub(at.elapsed()) {
                Duration::ZERO => Err(RelayEnd::Remote(())),
                left => Ok(wait.min(left)),
            },
            None => Ok(wait),
        }
    }

    fn takes_input(&self) -> bool {
        !self.socket().has_backlog() && self.status_at.is_none()
    }

    fn pump(&mut self, ready: PollFlags, outputs: &mut Outputs) -> Result<(), RelayEnd<()>> {
        self.web_socket.pump(ready)?;
        while let Some(incoming) = self.web_socket.next()? {
            let bytes = match incoming {
                Incoming::Close => return Err(RelayEnd::Remote(())),
                Incoming::More(bytes) => bytes,
                Incoming::Begin(bytes) => {
                    let mut bytes = bytes.into_iter();
                    self.channel = bytes.next();
                    bytes.collect()
                }
            };
            match self.channel {
                Some(STDOUT) => outputs.out.take(bytes),
                Some(STDERR) => outputs.err.take(bytes),
                // An empty message only announces the channel.
                Some(STATUS) if !bytes.is_empty() => {
                    self.status.extend(bytes);
                    self.status_at.get_or_insert_with(Instant::now);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn send_input(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        match bytes {
            [] if self.web_socket.ends_input => self.web_socket.send(&[END, STDIN]),
            [] => {}
            bytes => self.web_socket.send(&[&[STDIN], bytes].concat()),
        }
        Ok(())
    }
}
