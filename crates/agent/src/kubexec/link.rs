//! Bytes over TLS to one server, without blocking once they flow. Decides nothing about what they say.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustls::ClientConnection;

use super::http::Refusal;
use crate::frame_stream::StreamError;
use crate::poll::poll;

/// A server that answers does so far sooner; a packet that was lost is sent again by then.
const TRY_MAX: Duration = Duration::from_secs(10);

pub(super) struct Link {
    socket: TcpStream,
    tls: ClientConnection,
    /// Nothing more can come.
    ended: bool,
    /// Nothing more can be sent; what was sent to us before may still be read.
    mute: bool,
}

impl Link {
    /// Connects to the first address that takes us, and makes sure who it is.
    pub(super) fn connect(
        addresses: &[SocketAddr],
        tls: ClientConnection,
        until: Instant,
    ) -> Result<Self, Refusal> {
        let mut refused = io::Error::other("its name has no address");
        for address in addresses {
            let left = until.saturating_duration_since(Instant::now());
            let left = left.clamp(Duration::from_millis(1), TRY_MAX);
            match TcpStream::connect_timeout(address, left) {
                Ok(socket) => return Self::over(socket, tls, until).map_err(unopened),
                Err(error) => refused = error,
            }
        }
        Err(Refusal::Unreachable(refused))
    }

    fn over(socket: TcpStream, tls: ClientConnection, until: Instant) -> Result<Self, StreamError> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let mut link = Self {
            socket,
            tls,
            ended: false,
            mute: false,
        };
        // Callers watch the backlog themselves.
        link.tls.set_buffer_limit(None);
        let mut nothing = Vec::new();
        while link.tls.is_handshaking() {
            link.receive(&mut nothing, until)?;
        }
        Ok(link)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.tls.writer().write_all(bytes)?;
        self.flush();
        Ok(())
    }

    /// Waits for something to come, and takes it.
    pub(super) fn receive(
        &mut self,
        bytes: &mut Vec<u8>,
        until: Instant,
    ) -> Result<(), StreamError> {
        if self.ended {
            return Err(StreamError::Closed);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StreamError::Deadline);
        }
        let mut fds = [PollFd::new(&self.socket, self.interest(true))];
        poll(&mut fds, left)?;
        let ready = fds[0].revents();
        self.pump(ready, bytes).map(drop)
    }

    /// What to poll for; `read` is false while what was read has nowhere to go.
    pub(super) fn interest(&self, read: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, read && !self.ended);
        flags.set(PollFlags::OUT, self.has_backlog());
        flags
    }

    /// Reads and writes what poll said is possible; whether anything was heard.
    pub(super) fn pump(
        &mut self,
        ready: PollFlags,
        bytes: &mut Vec<u8>,
    ) -> Result<bool, StreamError> {
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let heard = ready.intersects(readable) && !self.ended;
        if heard {
            self.read(bytes)?;
        }
        self.flush();
        Ok(heard)
    }

    fn read(&mut self, bytes: &mut Vec<u8>) -> Result<(), StreamError> {
        match self.tls.read_tls(&mut self.socket) {
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(error) if is_retry(&error) => return Ok(()),
            // The server has gone, and left nothing unsaid that could still be heard.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.ended = true,
            Err(error) => return Err(error.into()),
        }
        let state = self.tls.process_new_packets().map_err(untrusted)?;
        let mut plain = vec![0; state.plaintext_bytes_to_read()];
        self.tls.reader().read_exact(&mut plain)?;
        bytes.append(&mut plain);
        self.ended |= state.peer_has_closed();
        Ok(())
    }

    /// A server that has said all it had to say need not listen to our last words.
    fn flush(&mut self) {
        while self.has_backlog() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if is_retry(&error) => break,
                Err(_) => self.mute = true,
            }
        }
    }

    /// Bytes wait for the socket: who makes more of them should wait too.
    pub(super) fn has_backlog(&self) -> bool {
        !self.mute && self.tls.wants_write()
    }

    /// Nothing more can come.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}

/// A connection that never came to be, so that nothing was asked yet.
fn unopened(error: StreamError) -> Refusal {
    match error {
        StreamError::Closed => Refusal::Unreachable(io::ErrorKind::UnexpectedEof.into()),
        StreamError::Io(error) if error.kind() != io::ErrorKind::Other => {
            Refusal::Unreachable(error)
        }
        // It may be reached, and will not be trusted more the next time.
        other => Refusal::Stream(other),
    }
}

/// rustls's words are for programmers, and those of `wire` are about workers.
fn untrusted(error: rustls::Error) -> StreamError {
    StreamError::Io(io::Error::other(format!(
        "cannot make sure that it is the API server: {error}"
    )))
}

fn is_retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
