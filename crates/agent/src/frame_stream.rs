//! Frames over one TLS connection, without blocking: the caller polls, `FrameStream` reads and writes
//! what is possible. Decides when the peer counts as lost; must not know what frames mean.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use contract::protocol::{ALPN, PEER_SILENCE_MAX, PING_INTERVAL};
use rustix::event::PollFlags;
use rustls::Connection;

use crate::frame::{Decoder, Frame};
use crate::socket::{Socket, StreamError};

/// One connection.
pub(crate) struct FrameStream {
    pub(crate) socket: Socket,
    decoder: Decoder,
}

impl FrameStream {
    pub(crate) fn new(socket: TcpStream, tls: impl Into<Connection>) -> io::Result<Self> {
        Ok(Self {
            socket: Socket::new(socket, Some(tls.into()))?,
            decoder: Decoder::default(),
        })
    }

    /// Waits until both sides have shown their keys; the first frame has not been read.
    pub(crate) fn handshake(&mut self, until: Instant) -> Result<(), StreamError> {
        match self.socket.handshake(until)? {
            Some(protocol) if protocol == ALPN => Ok(()),
            _ => Err(StreamError::Version),
        }
    }

    /// Waits for the next frame.
    pub(crate) fn receive(&mut self, until: Instant) -> Result<Frame, StreamError> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(frame);
            }
            self.socket.wait(until)?;
        }
    }

    /// Reads and writes what poll found possible.
    pub(crate) fn pump(&mut self, ready: PollFlags) -> Result<(), StreamError> {
        self.socket.read(ready)?;
        self.socket.flush()
    }

    /// A frame that has come in; an error when none can come any more.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, StreamError> {
        if !self.socket.inbox.is_empty() {
            self.decoder.push(&self.socket.inbox);
            self.socket.inbox.clear();
        }
        match self.decoder.next_frame()? {
            None if self.socket.ended => Err(StreamError::Closed),
            frame => Ok(frame),
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), StreamError> {
        self.socket.send(&frame.encode())
    }

    /// Sends a ping when one is due, and fails if the peer was silent for too long while we listened.
    /// Returns how long until the next ping.
    pub(crate) fn keep_alive(&mut self, listening: bool) -> Result<Duration, StreamError> {
        let alive = self
            .socket
            .keep_alive(listening, PING_INTERVAL, PEER_SILENCE_MAX);
        let (ping, wait) = alive?;
        if ping {
            self.send(&Frame::Ping)?;
        }
        Ok(wait)
    }

    /// Sends what is queued and closes the connection, within a deadline.
    pub(crate) fn close(self, until: Instant) {
        self.socket.close(until);
    }
}
