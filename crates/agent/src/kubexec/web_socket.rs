//! The client's side of a WebSocket after its handshake: frames, masks, pings. Decides when the server
//! counts as lost; must not know what the messages mean.

use std::io;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::socket::{Socket, StreamError};

/// How often we send a ping, and expect an answer.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// A server that was silent for this long is lost.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// No server sends more in one frame.
const FRAME_BYTES_MAX: u64 = 32 << 20;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// What the server sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// The beginning of a message.
    Begin(Vec<u8>),
    /// More of it.
    More(Vec<u8>),
    /// The server ends the connection.
    Close,
}

pub(super) struct WebSocket {
    pub(super) socket: Socket,
    mask: [u8; 4],
    /// The protocol can tell the server that our input has ended.
    pub(super) ends_input: bool,
}

impl WebSocket {
    /// After the handshake.
    pub(super) fn new(socket: Socket, mask: [u8; 4], ends_input: bool) -> Self {
        Self {
            socket,
            mask,
            ends_input,
        }
    }

    /// Sends one message.
    pub(super) fn send(&mut self, payload: &[u8]) {
        self.send_frame(BINARY, payload);
    }

    fn send_frame(&mut self, opcode: u8, payload: &[u8]) {
        let frame = encoded(opcode, payload, self.mask);
        // Any mask will do that differs from the last one.
        self.mask = u32::from_le_bytes(self.mask)
            .wrapping_mul(0x9e37_79b1)
            .wrapping_add(0x85eb_ca6b)
            .to_le_bytes();
        // A server that has sent everything need not read our last messages; if it did not send
        // everything, reading will fail too.
        let _ = self.socket.send(&frame);
    }

    /// Reads and writes what poll found possible.
    pub(super) fn pump(&mut self, ready: PollFlags) -> Result<(), StreamError> {
        match self.socket.read(ready) {
            // Everything that the server sent before was received.
            Err(StreamError::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.socket.ended = true;
            }
            read => read?,
        }
        let _ = self.socket.flush();
        Ok(())
    }

    /// What has come in; the end of the connection counts as a close.
    pub(super) fn next(&mut self) -> Result<Option<Incoming>, StreamError> {
        loop {
            let Some((opcode, payload)) = decoded(&mut self.socket.inbox)? else {
                return Ok(self.socket.ended.then_some(Incoming::Close));
            };
            match opcode {
                // Kubernetes sends no text; it would mean the same.
                BINARY | TEXT => return Ok(Some(Incoming::Begin(payload))),
                CONTINUATION => return Ok(Some(Incoming::More(payload))),
                CLOSE => return Ok(Some(Incoming::Close)),
                PING => self.send_frame(PONG, &payload),
                PONG => {}
                _ => return Err(StreamError::Malformed),
            }
        }
    }

    /// Sends a ping when one is due, and fails if the server was silent for too long while we
    /// listened. Returns how long until the next ping.
    pub(super) fn keep_alive(&mut self, listening: bool) -> Result<Duration, StreamError> {
        let alive = self
            .socket
            .keep_alive(listening, PING_INTERVAL, SILENCE_MAX);
        let (ping, wait) = alive?;
        if ping {
            self.send_frame(PING, b"");
        }
        Ok(wait)
    }

    /// Tells the server that we close, without waiting for its answer.
    pub(super) fn close(mut self) {
        self.send_frame(CLOSE, &1000_u16.to_be_bytes());
    }
}

pub(crate) fn encoded(opcode: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![FINAL | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => frame.push(MASKED | length),
        (_, Ok(length)) => {
            frame.push(MASKED | 126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(MASKED | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
    frame
}

/// Takes the first frame out of what has come, if it is there as a whole.
pub(crate) fn decoded(inbox: &mut Vec<u8>) -> Result<Option<(u8, Vec<u8>)>, StreamError> {
    let [first, second, ..] = inbox[..] else {
        return Ok(None);
    };
    // Servers do not mask, and no extension was agreed on.
    if second & MASKED != 0 || first & 0x70 != 0 {
        return Err(StreamError::Malformed);
    }
    let (length, start) = match second {
        126 => match inbox.get(2..4) {
            Some(bytes) => (number(bytes), 4),
            None => return Ok(None),
        },
        127 => match inbox.get(2..10) {
            Some(bytes) => (number(bytes), 10),
            None => return Ok(None),
        },
        short => (u64::from(short), 2),
    };
    if length > FRAME_BYTES_MAX {
        return Err(StreamError::Malformed);
    }
    let end = start + usize::try_from(length).map_err(|_| StreamError::Malformed)?;
    if inbox.len() < end {
        return Ok(None);
    }
    let payload = inbox[start..end].to_vec();
    inbox.drain(..end);
    Ok(Some((first & 0x0f, payload)))
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a server would send it.
    fn unmasked(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let frame = encoded(opcode, payload, [0; 4]);
        let head = match payload.len() {
            0..126 => 2,
            126..0x1_0000 => 4,
            _ => 10,
        };
        let mut bare = frame[..head].to_vec();
        bare[1] &= 0x7f;
        bare.extend(payload);
        bare
    }

    #[test]
    fn frames_of_every_length_come_back_byte_by_byte() {
        for length in [0, 1, 125, 126, 127, 0xffff, 0x1_0000, 70_000] {
            let payload: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
            let bytes = unmasked(BINARY, &payload);
            let mut inbox = Vec::new();
            let (last, most) = bytes.split_last().expect("no frame is empty");
            inbox.extend(most);
            assert!(matches!(decoded(&mut inbox), Ok(None)), "{length}");
            inbox.push(*last);
            let (opcode, back) = decoded(&mut inbox).expect("sound").expect("whole");
            assert_eq!((opcode, back), (BINARY, payload));
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn what_we_send_is_masked() {
        let frame = encoded(BINARY, b"abc", [1, 2, 3, 4]);
        assert_eq!(frame[..6], [0x82, 0x83, 1, 2, 3, 4]);
        assert_eq!(frame[6..], [b'a' ^ 1, b'b' ^ 2, b'c' ^ 3]);
    }

    #[test]
    fn frames_that_no_server_may_send_end_it() {
        let huge = [&[0x82, 127][..], &u64::MAX.to_be_bytes()].concat();
        for bytes in [encoded(BINARY, b"a", [1; 4]), vec![0xc2, 0], huge] {
            assert!(decoded(&mut bytes.clone()).is_err(), "{bytes:?}");
        }
    }
}
