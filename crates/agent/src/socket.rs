//! Bytes over one TCP connection, with or without TLS, without blocking: the caller polls, `Socket`
//! reads and writes what is possible. Decides nothing about what the bytes mean.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustls::Connection;
use thiserror::Error;

use crate::frame::FrameError;
use crate::poll::poll;

const READ_BYTES: usize = 16 * 1024;

/// Why nothing more can be received.
#[derive(Debug, Error)]
pub(crate) enum StreamError {
    #[error("the connection was closed")]
    Closed,
    #[error("nothing was heard for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("no answer in time")]
    Deadline,
    #[error("the peer speaks another protocol version")]
    Version,
    #[error("the peer sent a malformed WebSocket frame")]
    Malformed,
    #[error("{}", tls_message(.0))]
    Tls(rustls::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// rustls's messages are for programmers; these are for people who look at a pod.
fn tls_message(error: &rustls::Error) -> String {
    use rustls::{CertificateError as C, Error as E};
    let message = match error {
        E::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => {
            "its key or certificate has expired"
        }
        E::InvalidCertificate(C::ApplicationVerificationFailure) => {
            "what answers there has not the key of that worker"
        }
        E::InvalidCertificate(C::UnknownIssuer | C::BadSignature) => {
            "its certificate is from an unknown authority"
        }
        E::AlertReceived(alert) => {
            return format!("it refused our key or version ({alert:?})");
        }
        E::NoApplicationProtocol => "it speaks another protocol version",
        other => return format!("TLS failed: {other}"),
    };
    message.to_owned()
}

/// One connection.
pub(crate) struct Socket {
    tcp: TcpStream,
    tls: Option<Connection>,
    /// Received and not yet taken by the caller.
    pub(crate) inbox: Vec<u8>,
    /// To be sent without TLS, which has a buffer of its own.
    outbox: Vec<u8>,
    /// The peer sends nothing more.
    pub(crate) ended: bool,
    /// TLS was not closed before the connection ended, so something may be missing.
    pub(crate) truncated: bool,
    /// The peer reads nothing more.
    mute: bool,
    heard: Instant,
    pinged: Instant,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream, mut tls: Option<Connection>) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        if let Some(tls) = &mut tls {
            // Callers watch the backlog themselves; a frame of which TLS took a part would be broken.
            tls.set_buffer_limit(None);
        }
        Ok(Self {
            tcp,
            tls,
            inbox: Vec::new(),
            outbox: Vec::new(),
            ended: false,
            truncated: false,
            mute: false,
            heard: Instant::now(),
            pinged: Instant::now(),
        })
    }

    /// The address by which the peer reaches us.
    pub(crate) fn local_address(&self) -> io::Result<IpAddr> {
        Ok(self.tcp.local_addr()?.ip())
    }

    /// Waits until the keys are verified. Returns the protocol that both sides agreed on.
    pub(crate) fn handshake(&mut self, until: Instant) -> Result<Option<&[u8]>, StreamError> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            if self.ended {
                return Err(StreamError::Closed);
            }
            self.wait(until)?;
        }
        Ok(self.tls.as_ref().and_then(|tls| tls.alpn_protocol()))
    }

    /// Waits until the socket is ready, and reads and writes.
    pub(crate) fn wait(&mut self, until: Instant) -> Result<(), StreamError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StreamError::Deadline);
        }
        let mut fds = [PollFd::new(&self.tcp, self.interest(true))];
        poll(&mut fds, left)?;
        let ready = fds[0].revents();
        self.read(ready)?;
        self.flush()
    }

    /// What to poll for; `read` is false while what was read has nowhere to go.
    pub(crate) fn interest(&self, read: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        // A client that is gone ends its session at once; a server may close while what it sent
        // still waits to be read.
        let serves = matches!(self.tls, Some(Connection::Server(_)));
        flags.set(PollFlags::RDHUP, serves && !self.ended);
        flags.set(PollFlags::IN, read && !self.ended);
        flags.set(PollFlags::OUT, self.has_backlog());
        flags
    }

    /// Reads into the inbox if poll found that possible.
    pub(crate) fn read(&mut self, ready: PollFlags) -> Result<(), StreamError> {
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !self.ended {
            match self.read_some() {
                Ok(0) => self.ended = true,
                Ok(_) => self.heard = Instant::now(),
                Err(error) if is_retry(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.decrypt()?;
        }
        if ready.contains(PollFlags::RDHUP) && !ready.contains(PollFlags::IN) {
            self.ended = true;
        }
        Ok(())
    }

    fn read_some(&mut self) -> io::Result<usize> {
        if let Some(tls) = &mut self.tls {
            return tls.read_tls(&mut self.tcp);
        }
        let start = self.inbox.len();
        self.inbox.resize(start + READ_BYTES, 0);
        let read = self.tcp.read(&mut self.inbox[start..]);
        self.inbox
            .truncate(start + read.as_ref().copied().unwrap_or(0));
        read
    }

    fn decrypt(&mut self) -> Result<(), StreamError> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        let state = match tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // The peer learns why from an alert that is already queued.
                let _ = tls.write_tls(&mut self.tcp);
                return Err(StreamError::Tls(error));
            }
        };
        let start = self.inbox.len();
        self.inbox
            .resize(start + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut self.inbox[start..])?;
        self.truncated = self.ended && !state.peer_has_closed();
        self.ended |= state.peer_has_closed();
        Ok(())
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes)?,
            None => self.outbox.extend_from_slice(bytes),
        }
        self.flush()
    }

    /// Writes as much as the peer takes.
    pub(crate) fn flush(&mut self) -> Result<(), StreamError> {
        while self.has_backlog() {
            let written = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut self.tcp).map(drop),
                None => (self.tcp.write(&self.outbox)).map(|sent| drop(self.outbox.drain(..sent))),
            };
            match written {
                Ok(()) => {}
                Err(error) if is_retry(&error) => break,
                Err(error) => {
                    self.mute = true;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Bytes wait for the socket: the caller should not produce more of them.
    pub(crate) fn has_backlog(&self) -> bool {
        let waits = match &self.tls {
            Some(tls) => tls.wants_write(),
            None => !self.outbox.is_empty(),
        };
        waits && !self.mute
    }

    /// Fails if the peer was silent for too long while we listened. Returns whether a ping is due now,
    /// and how long until the next one.
    pub(crate) fn keep_alive(
        &mut self,
        listening: bool,
        ping_interval: Duration,
        silence_max: Duration,
    ) -> Result<(bool, Duration), StreamError> {
        let now = Instant::now();
        if !listening {
            self.heard = now;
        }
        if now.duration_since(self.heard) >= silence_max {
            return Err(StreamError::Silent(silence_max));
        }
        let due = now.duration_since(self.pinged) >= ping_interval;
        if due {
            self.pinged = now;
        }
        let left = ping_interval.saturating_sub(now.duration_since(self.pinged));
        Ok((due && !self.has_backlog(), left))
    }

    /// Sends what is queued and closes the connection, within a deadline.
    pub(crate) fn close(mut self, until: Instant) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        while self.flush().is_ok() && self.has_backlog() {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.tcp, PollFlags::OUT)];
            if left.is_zero() || poll(&mut fds, left).is_err() {
                return;
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
