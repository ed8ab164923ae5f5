//! Frames: what shim and server say to each other inside TLS. Decides their bytes and every limit
//! on them, checked before memory is taken. Must not know sockets, processes or who is speaking.
//!
//! A frame is its length (u32, big-endian, of all that follows), one byte for its kind, its body.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest frame, without its length.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of output or input in one frame.
pub const DATA_BYTES_MAX: usize = 32 * 1024;
const TEXT_BYTES_MAX: usize = 4 * 1024;
const LENGTH_BYTES: usize = 4;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
}

impl Ending {
    /// As a shell says it: the code, or 128 plus the signal.
    pub fn shell_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 | (signal & 0x7f),
        }
    }

    /// From the status that the kernel hands to a waiting parent.
    pub fn from_wait_status(status: i32) -> Self {
        let [low, code, ..] = status.to_le_bytes();
        match low & 0x7f {
            0 => Self::Code(code),
            signal => Self::Signal(signal),
        }
    }
}

/// What was last seen of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankState {
    /// It runs, and has not begun or has finished with MPI as far as can be seen.
    Running,
    /// It has begun with MPI and still holds its connection to the launcher.
    InMpi,
    /// It is gone, was last seen in MPI, and nobody can say how it ended.
    Vanished,
    /// It ended.
    Ended(Ending),
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Server, first: the launcher's certificate was accepted. Carries the server's version.
    Hello(String),
    /// Client: a variable for the command; any number before `Start`, within limits.
    Variable {
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// Client, once: text for `/bin/sh -c`.
    Start(Vec<u8>),
    /// Client, instead of a command: the attempt with this mark is over. The server ends everything that
    /// it has started, and starts nothing more for that attempt.
    Over(String),
    /// Server, last: nothing of that attempt, nor of any other, is left.
    Clear,
    /// Client, instead of a command: a signal for all ranks of the attempt with this mark.
    Tell {
        /// The signal.
        signal: u8,
        /// The mark.
        attempt: String,
    },
    /// Server, last: the ranks that there are have got the signal.
    Told,
    /// Server: the worker was told to end. It waits for a while, so that the launcher can stop the program.
    Leaving,
    /// Client: bytes for the command's standard input.
    Stdin(Vec<u8>),
    /// Client: no more of them.
    StdinEnd,
    /// Server: bytes of the command's standard output.
    Stdout(Vec<u8>),
    /// Server: bytes of its standard error.
    Stderr(Vec<u8>),
    /// Client: a signal for the command.
    Signal(u8),
    /// Server, last: the command and its output have ended.
    Exit(Ending),
    /// Server, before that: the command has failed. A launcher that notices may leave the shim no
    /// time for more.
    Failed(Ending),
    /// Server: something new was seen of a rank.
    Rank(u32, RankState),
    /// Server: how many ranks the program has on this host, if that is known for certain. The last
    /// one holds.
    RankCount(Option<u32>),
    /// Either, every few seconds: still here.
    Ping,
    /// Server, last: one sentence on why the request cannot be served.
    Refusal(String),
}

/// Bytes that are no frame. The connection is of no further use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The announced length is zero or beyond the limit.
    #[error("a frame of {0} bytes; 1 to {FRAME_BYTES_MAX} are allowed")]
    Length(u32),
    /// No frame has this number.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// The body does not fit its kind.
    #[error("a frame of kind {0} whose body is malformed")]
    Body(u8),
}

const HELLO: u8 = 1;
const VARIABLE: u8 = 2;
const START: u8 = 3;
const STDIN: u8 = 4;
const STDIN_END: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const SIGNAL: u8 = 8;
const EXIT: u8 = 9;
const RANK: u8 = 10;
const PING: u8 = 11;
const REFUSAL: u8 = 12;
const FAILED: u8 = 13;
const RANK_COUNT: u8 = 14;
const OVER: u8 = 15;
const CLEAR: u8 = 16;
const TELL: u8 = 17;
const TOLD: u8 = 18;
const LEAVING: u8 = 19;

impl Frame {
    /// The bytes on the wire. A body beyond the limit is cut where it is text for people; callers
    /// keep all others within [`DATA_BYTES_MAX`] or ask [`Frame::fits`] first.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Hello(text) => (HELLO, text_body(text)),
            Self::Variable { name, value } => (VARIABLE, variable_body(name, value)),
            Self::Start(command) => (START, command.clone()),
            Self::Over(mark) => (OVER, text_body(mark)),
            Self::Clear => (CLEAR, Vec::new()),
            Self::Tell { signal, attempt } => (TELL, [vec![*signal], text_body(attempt)].concat()),
            Self::Told => (TOLD, Vec::new()),
            Self::Leaving => (LEAVING, Vec::new()),
            Self::Stdin(bytes) => (STDIN, bytes.clone()),
            Self::StdinEnd => (STDIN_END, Vec::new()),
            Self::Stdout(bytes) => (STDOUT, bytes.clone()),
            Self::Stderr(bytes) => (STDERR, bytes.clone()),
            Self::Signal(signal) => (SIGNAL, vec![*signal]),
            Self::Exit(ending) => (EXIT, ending_body(*ending).to_vec()),
            Self::Failed(ending) => (FAILED, ending_body(*ending).to_vec()),
            Self::Rank(rank, state) => (RANK, rank_body(*rank, *state)),
            Self::RankCount(count) => (RANK_COUNT, count.unwrap_or(0).to_be_bytes().to_vec()),
            Self::Ping => (PING, Vec::new()),
            Self::Refusal(text) => (REFUSAL, text_body(text)),
        };
        let length = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(LENGTH_BYTES + 1 + body.len());
        bytes.extend(length.to_be_bytes());
        bytes.push(kind);
        bytes.extend(body);
        bytes
    }

    /// Whether a peer would take it.
    pub fn fits(&self) -> bool {
        let bytes = match self {
            Self::Variable { name, value } => 2 + name.len() + value.len(),
            Self::Start(bytes) | Self::Stdin(bytes) | Self::Stdout(bytes) | Self::Stderr(bytes) => {
                bytes.len()
            }
            _ => 0,
        };
        bytes < FRAME_BYTES_MAX
    }

    fn decode(kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        let malformed = || FrameError::Body(kind);
        let frame = match kind {
            HELLO => Self::Hello(text(body).ok_or_else(malformed)?),
            VARIABLE => variable(body).ok_or_else(malformed)?,
            START if !body.is_empty() && !body.contains(&0) => Self::Start(body.to_vec()),
            OVER if !body.is_empty() => Self::Over(text(body).ok_or_else(malformed)?),
            CLEAR if body.is_empty() => Self::Clear,
            TELL => match body {
                [signal @ 1..=64, attempt @ ..] if !attempt.is_empty() => Self::Tell {
                    signal: *signal,
                    attempt: text(attempt).ok_or_else(malformed)?,
                },
                _ => return Err(malformed()),
            },
            TOLD if body.is_empty() => Self::Told,
            LEAVING if body.is_empty() => Self::Leaving,
            STDIN => Self::Stdin(body.to_vec()),
            STDIN_END if body.is_empty() => Self::StdinEnd,
            STDOUT => Self::Stdout(body.to_vec()),
            STDERR => Self::Stderr(body.to_vec()),
            SIGNAL => match body {
                [signal @ 1..=64] => Self::Signal(*signal),
                _ => return Err(malformed()),
            },
            EXIT => Self::Exit(ending(body).ok_or_else(malformed)?),
            FAILED => Self::Failed(ending(body).ok_or_else(malformed)?),
            RANK => rank(body).ok_or_else(malformed)?,
            RANK_COUNT => {
                let count = u32::from_be_bytes(body.try_into().map_err(|_| malformed())?);
                Self::RankCount((count > 0).then_some(count))
            }
            PING if body.is_empty() => Self::Ping,
            REFUSAL => Self::Refusal(text(body).ok_or_else(malformed)?),
            START | OVER | CLEAR | TOLD | LEAVING | STDIN_END | PING => return Err(malformed()),
            unknown => return Err(FrameError::Kind(unknown)),
        };
        Ok(frame)
    }
}

fn text_body(text: &str) -> Vec<u8> {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.as_bytes()[..end].to_vec()
}

/// Text that is printed to people: no control characters, so that a peer cannot draw on terminals.
fn text(body: &[u8]) -> Option<String> {
    if body.len() > TEXT_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(printable.collect())
}

fn variable_body(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    let mut body = length.to_be_bytes().to_vec();
    body.extend(name);
    body.extend(value);
    body
}

fn variable(body: &[u8]) -> Option<Frame> {
    let (length, rest) = body.split_first_chunk()?;
    let (name, value) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let sound = !name.is_empty() && !name.contains(&b'=') && !body[2..].contains(&0);
    sound.then(|| Frame::Variable {
        name: name.to_vec(),
        value: value.to_vec(),
    })
}

fn ending_body(ending: Ending) -> [u8; 2] {
    match ending {
        Ending::Code(code) => [0, code],
        Ending::Signal(signal) => [1, signal],
    }
}

fn ending(body: &[u8]) -> Option<Ending> {
    match body {
        [0, code] => Some(Ending::Code(*code)),
        [1, signal @ 1..=127] => Some(Ending::Signal(*signal)),
        _ => None,
    }
}

fn rank_body(rank: u32, state: RankState) -> Vec<u8> {
    let mut body = rank.to_be_bytes().to_vec();
    match state {
        RankState::Running => body.push(2),
        RankState::InMpi => body.push(3),
        RankState::Vanished => body.push(4),
        RankState::Ended(ending) => body.extend(ending_body(ending)),
    }
    body
}

fn rank(body: &[u8]) -> Option<Frame> {
    let (rank, rest) = body.split_first_chunk()?;
    let state = match rest {
        [2] => RankState::Running,
        [3] => RankState::InMpi,
        [4] => RankState::Vanished,
        rest => RankState::Ended(ending(rest)?),
    };
    Some(Frame::Rank(u32::from_be_bytes(*rank), state))
}

/// Makes frames of bytes as they come in.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// Takes bytes that came in. Callers take frames out between reads, so that what is kept stays
    /// below one frame and one read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame. After an error there is none any more.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((length, rest)) = self.bytes[self.start..].split_first_chunk() else {
            return Ok(None);
        };
        let announced = u32::from_be_bytes(*length);
        let length = usize::try_from(announced).unwrap_or(usize::MAX);
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(FrameError::Length(announced));
        }
        let Some(([kind, body @ ..], _)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        let frame = Frame::decode(*kind, body)?;
        self.start += LENGTH_BYTES + length;
        Ok(Some(frame))
    }

    /// Bytes that wait for the rest of their frame.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_frames() -> Vec<Frame> {
        vec![
            Frame::Hello("0.1.0".into()),
            Frame::Variable {
                name: b"FOO".to_vec(),
                value: b"a=b\nc".to_vec(),
            },
            Frame::Start(b" orted -mca ess \"env\"".to_vec()),
            Frame::Over("5f".into()),
            Frame::Clear,
            Frame::Tell {
                signal: 10,
                attempt: "5f".into(),
            },
            Frame::Told,
            Frame::Leaving,
            Frame::Stdin(vec![0; DATA_BYTES_MAX]),
            Frame::StdinEnd,
            Frame::Stdout(b"out".to_vec()),
            Frame::Stderr(Vec::new()),
            Frame::Signal(10),
            Frame::Exit(Ending::Code(255)),
            Frame::Exit(Ending::Signal(9)),
            Frame::Failed(Ending::Code(137)),
            Frame::Rank(70_000, RankState::Running),
            Frame::Rank(0, RankState::InMpi),
            Frame::Rank(1, RankState::Vanished),
            Frame::Rank(3, RankState::Ended(Ending::Code(3))),
            Frame::RankCount(Some(64)),
            Frame::RankCount(None),
            Frame::Ping,
            Frame::Refusal("no /bin/sh".into()),
        ]
    }

    fn decode_all(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn every_frame_comes_back() {
        let frames = all_frames();
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        assert_eq!(decode_all(&bytes).unwrap(), frames);
    }

    #[test]
    fn it_does_not_matter_where_reads_cut() {
        let bytes: Vec<u8> = all_frames().iter().flat_map(Frame::encode).collect();
        for step in [1, 3, 7, 1000] {
            let mut decoder = Decoder::default();
            let mut frames = Vec::new();
            for chunk in bytes.chunks(step) {
                decoder.push(chunk);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames, all_frames(), "cut every {step}");
            assert_eq!(decoder.pending(), 0);
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
        for length in [0_u32, 64 * 1024 + 1, u32::MAX] {
            let error = decode_all(&length.to_be_bytes()).unwrap_err();
            assert_eq!(error, FrameError::Length(length));
        }
        let longest = Frame::Stdout(vec![1; FRAME_BYTES_MAX - 1]);
        assert!(longest.fits());
        assert_eq!(decode_all(&longest.encode()).unwrap(), [longest]);
        let longer = Frame::Stdout(vec![1; FRAME_BYTES_MAX]);
        assert!(!longer.fits());
        assert!(decode_all(&longer.encode()).is_err());
    }

    #[test]
    fn malformed_bodies_are_refused() {
        let cases: [(&[u8], FrameError); 17] = [
            (&[0], FrameError::Kind(0)),
            (&[200, 1], FrameError::Kind(200)),
            (&[START], FrameError::Body(START)),
            (&[START, b'a', 0, b'b'], FrameError::Body(START)),
            (&[VARIABLE, 0, 9, b'A'], FrameError::Body(VARIABLE)),
            (&[VARIABLE, 0, 1, b'=', b'x'], FrameError::Body(VARIABLE)),
            (&[SIGNAL, 0], FrameError::Body(SIGNAL)),
            (&[EXIT, 1, 0], FrameError::Body(EXIT)),
            (&[PING, 1], FrameError::Body(PING)),
            (&[RANK, 0, 0, 0, 1, 5], FrameError::Body(RANK)),
            (&[RANK_COUNT, 1], FrameError::Body(RANK_COUNT)),
            (&[OVER], FrameError::Body(OVER)),
            (&[CLEAR, 1], FrameError::Body(CLEAR)),
            (&[TELL, 10], FrameError::Body(TELL)),
            (&[TELL, 0, b'a'], FrameError::Body(TELL)),
            (&[TOLD, 1], FrameError::Body(TOLD)),
            (&[LEAVING, 1], FrameError::Body(LEAVING)),
        ];
        for (body, error) in cases {
            let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
            bytes.extend(body);
            assert_eq!(decode_all(&bytes), Err(error), "{body:?}");
        }
    }

    #[test]
    fn text_for_people_cannot_draw_on_their_terminal() {
        let frame = Frame::Refusal("a\u{1b}[2Jb\nc".into());
        let decoded = decode_all(&frame.encode()).unwrap();
        assert_eq!(decoded, [Frame::Refusal("a [2Jb c".into())]);
        let long = Frame::Refusal("ä".repeat(TEXT_BYTES_MAX));
        assert!(decode_all(&long.encode()).is_ok());
    }

    #[test]
    fn endings_are_told_as_shells_do() {
        assert_eq!(Ending::from_wait_status(0x0300), Ending::Code(3));
        assert_eq!(Ending::from_wait_status(9), Ending::Signal(9));
        assert_eq!(Ending::from_wait_status(0x8b), Ending::Signal(11));
        assert_eq!(Ending::Signal(11).shell_code(), 139);
        assert_eq!(Ending::Code(255).shell_code(), 255);
    }
}
