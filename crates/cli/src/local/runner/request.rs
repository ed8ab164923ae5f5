//! What a running container is asked to do, and the output that it passes on. Decides nothing.

use tokio::sync::oneshot;

use super::log::Stream;

/// A piece of a program's output, on its way to whoever watches.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) stream: Stream,
    pub(crate) bytes: Vec<u8>,
}

/// What others want of a running container.
#[derive(Debug)]
pub(crate) enum ContainerRequest {
    /// TERM, and KILL after the grace.
    Stop { grace_secs: u64 },
    /// A signal to the program's process group.
    Signal(i32),
    /// A command beside the program; the answer is its exit code.
    Exec {
        words: Vec<String>,
        timeout_secs: u64,
        answer: oneshot::Sender<Option<i32>>,
    },
}
