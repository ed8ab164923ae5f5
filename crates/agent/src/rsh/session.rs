//! A session on a worker, seen from the launcher: frames in both directions while the command runs.
//! Decides which frame means what; must not know what the end of a session means to a launcher.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::frame::{Ending, Frame, RankState};
use crate::frame_stream::FrameStream;
use crate::relay::{self, Outputs, RelayEnd, Remote};
use crate::signals::Signals;
use crate::socket::{Socket, StreamError};

const GOODBYE_MAX: Duration = Duration::from_millis(500);

/// How a session ended: the command's end, or why the worker refused to run it.
pub(super) type ShimEnd = RelayEnd<Result<Ending, String>>;

/// What a worker reports while the command's output is still under way.
pub(super) enum WorkerEvent {
    Rank(u32, RankState),
    RankCount(Option<u32>),
    Failed(Ending),
    Leaving,
}

/// Runs until the command has ended and its output was written, or nothing more can come.
pub(super) fn run(
    stream: FrameStream,
    signals: &Signals,
    reads_input: bool,
    on_event: impl FnMut(WorkerEvent),
) -> ShimEnd {
    let mut session = Session { stream, on_event };
    let (end, mut outputs) = relay::run(&mut session, signals, reads_input);
    if matches!(end, ShimEnd::Remote(_)) {
        outputs.write_all();
    }
    session.stream.close(Instant::now() + GOODBYE_MAX);
    end
}

struct Session<F> {
    stream: FrameStream,
    on_event: F,
}

impl<F: FnMut(WorkerEvent)> Remote for Session<F> {
    type Outcome = Result<Ending, String>;

    fn socket(&self) -> &Socket {
        &self.stream.socket
    }

    fn keep_alive(&mut self, listening: bool) -> Result<Duration, ShimEnd> {
        Ok(self.stream.keep_alive(listening)?)
    }

    fn pump(&mut self, ready: PollFlags, outputs: &mut Outputs) -> Result<(), ShimEnd> {
        self.stream.pump(ready)?;
        while let Some(frame) = self.stream.next_frame()? {
            match frame {
                Frame::Stdout(bytes) => outputs.out.take(bytes),
                Frame::Stderr(bytes) => outputs.err.take(bytes),
                Frame::Rank(rank, state) => (self.on_event)(WorkerEvent::Rank(rank, state)),
                Frame::RankCount(count) => (self.on_event)(WorkerEvent::RankCount(count)),
                Frame::Failed(ending) => (self.on_event)(WorkerEvent::Failed(ending)),
                Frame::Leaving => (self.on_event)(WorkerEvent::Leaving),
                Frame::Exit(ending) => return Err(ShimEnd::Remote(Ok(ending))),
                Frame::Refusal(why) => return Err(ShimEnd::Remote(Err(why))),
                _ => {}
            }
        }
        Ok(())
    }

    fn send_input(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.stream.send(&match bytes {
            [] => Frame::StdinEnd,
            bytes => Frame::Stdin(bytes.to_vec()),
        })
    }

    /// Any other signal is the launcher's way to end its shim: the worker sees the connection end, and
    /// ends the process tree.
    fn signal(&mut self, signal: i32) -> Result<(), ShimEnd> {
        match (signal, u8::try_from(signal)) {
            (SIGUSR1 | SIGUSR2, Ok(number)) => Ok(self.stream.send(&Frame::Signal(number))?),
            _ => Err(ShimEnd::Signal(signal)),
        }
    }
}
