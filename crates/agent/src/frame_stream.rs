//! Frames over TLS over one socket, without blocking: the caller polls, `FrameStream` reads and writes
//! what is possible. Decides when the peer counts as lost; must not know what frames mean.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustls::Connection;
use thiserror::Error;

use crate::contract::{ALPN, PEER_SILENCE_MAX, PING_INTERVAL};
use crate::frame::{Decoder, Frame, FrameError};
use crate::poll::poll;

/// Why no more frames can come.
#[derive(Debug, Error)]
pub(crate) enum StreamError {
    #[error("the connection was closed")]
    Closed,
    #[error("nothing was heard for {} s", PEER_SILENCE_MAX.as_secs())]
    Silent,
    #[error("no answer in time")]
    Deadline,
    #[error("the peer speaks another protocol version")]
    Version,
    #[error("{}", tls_words(.0))]
    Tls(rustls::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// rustls's words are for programmers; these are for people who look at a pod.
fn tls_words(error: &rustls::Error) -> String {
    use rustls::{CertificateError as C, Error as E};
    match error {
        E::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => {
            "its certificate has expired".into()
        }
        E::InvalidCertificate(C::UnknownIssuer | C::BadSignature) => {
            "its certificate is of another job".into()
        }
        E::InvalidCertificate(C::InvalidPurpose) => {
            "its certificate is not meant for its role".into()
        }
        E::InvalidCertificate(C::NotValidForName) => {
            "its certificate names another role or job".into()
        }
        E::AlertReceived(alert) => format!("it refused our certificate or version ({alert:?})"),
        E::NoApplicationProtocol => "it speaks another protocol version".into(),
        other => format!("TLS failed: {other}"),
    }
}

/// One connection.
pub(crate) struct FrameStream {
    socket: TcpStream,
    tls: Connection,
    decoder: Decoder,
    heard: Instant,
    pinged: Instant,
    ended: bool,
}

impl FrameStream {
    /// Where the peer finds us.
    pub(crate) fn local_address(&self) -> io::Result<IpAddr> {
        Ok(self.socket.local_addr()?.ip())
    }

    pub(crate) fn new(socket: TcpStream, tls: Connection) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let mut stream = Self {
            socket,
            tls,
            decoder: Decoder::default(),
            heard: Instant::now(),
            pinged: Instant::now(),
            ended: false,
        };
        // Callers watch the backlog themselves; a partly taken frame would be a broken one.
        stream.tls.set_buffer_limit(None);
        Ok(stream)
    }

    /// Both sides have shown who they are; the first frame has not been read.
    pub(crate) fn handshake(&mut self, until: Instant) -> Result<(), StreamError> {
        while self.tls.is_handshaking() {
            if self.ended {
                return Err(StreamError::Closed);
            }
            self.wait(until)?;
        }
        match self.tls.alpn_protocol() {
            Some(protocol) if protocol == ALPN => Ok(()),
            _ => Err(StreamError::Version),
        }
    }

    /// The next frame, waited for.
    pub(crate) fn receive(&mut self, until: Instant) -> Result<Frame, StreamError> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(frame);
            }
            self.wait(until)?;
        }
    }

    fn wait(&mut self, until: Instant) -> Result<(), StreamError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StreamError::Deadline);
        }
        let mut fds = [PollFd::new(&self.socket, self.interest(true))];
        poll(&mut fds, left)?;
        let ready = fds[0].revents();
        self.pump(ready)
    }

    /// What to poll for; `read` is false while what was read has nowhere to go.
    pub(crate) fn interest(&self, read: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        // A client that is gone ends its session at once; a server may close while what it sent
        // still waits to be read.
        flags.set(
            PollFlags::RDHUP,
            matches!(self.tls, Connection::Server(_)) && !self.ended,
        );
        flags.set(PollFlags::IN, read && !self.ended);
        flags.set(PollFlags::OUT, self.tls.wants_write());
        flags
    }

    /// Reads and writes what poll said is possible.
    pub(crate) fn pump(&mut self, ready: PollFlags) -> Result<(), StreamError> {
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !self.ended {
            self.read()?;
        }
        if ready.contains(PollFlags::RDHUP) && !ready.contains(PollFlags::IN) {
            self.ended = true;
        }
        self.flush()
    }

    fn read(&mut self) -> Result<(), StreamError> {
        match self.tls.read_tls(&mut self.socket) {
            Ok(0) => self.ended = true,
            Ok(_) => self.heard = Instant::now(),
            Err(error) if is_retry(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let state = match self.tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // The peer learns why from an alert that is already queued.
                let _ = self.tls.write_tls(&mut self.socket);
                return Err(StreamError::Tls(error));
            }
        };
        let mut chunk = [0; 4096];
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            let taken = self.tls.reader().read(&mut chunk)?;
            self.decoder.push(&chunk[..taken]);
            left = left.saturating_sub(taken.max(1));
        }
        self.ended |= state.peer_has_closed();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if is_retry(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A frame that has come in; an error when none can come any more.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, StreamError> {
        match self.decoder.next_frame()? {
            None if self.ended => Err(StreamError::Closed),
            frame => Ok(frame),
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), StreamError> {
        self.tls.writer().write_all(&frame.encode())?;
        self.flush()
    }

    /// Bytes wait for the socket: who makes more of them should wait too.
    pub(crate) fn has_backlog(&self) -> bool {
        self.tls.wants_write()
    }

    /// Says that we are here when it is time, and judges the peer's silence, unless we did not
    /// listen. Returns how long until the next such moment.
    pub(crate) fn keep_alive(&mut self, listening: bool) -> Result<Duration, StreamError> {
        let now = Instant::now();
        if !listening {
            self.heard = now;
        }
        if now.duration_since(self.heard) >= PEER_SILENCE_MAX {
            return Err(StreamError::Silent);
        }
        if now.duration_since(self.pinged) >= PING_INTERVAL {
            self.pinged = now;
            if !self.has_backlog() {
                self.send(&Frame::Ping)?;
            }
        }
        Ok(PING_INTERVAL.saturating_sub(now.duration_since(self.pinged)))
    }

    /// Sends what is queued and says goodbye, within a deadline.
    pub(crate) fn close(mut self, until: Instant) {
        self.tls.send_close_notify();
        while self.flush().is_ok() && self.tls.wants_write() {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.socket, PollFlags::OUT)];
            if left.is_zero() || poll(&mut fds, left).is_err() {
                return;
            }
        }
    }
}

impl AsFd for FrameStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
