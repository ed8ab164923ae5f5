//! Passes a program's output to stdout and stderr. A thread writes it, so that a slow reader slows down
//! the program and nothing else.

use std::io::Write as _;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{Notify, mpsc};

use super::runner::log::Stream;
use super::runner::request::Chunk;

/// Chunks that are buffered before the program has to wait.
const CHUNKS_MAX: usize = 16;

/// The thread that writes, and the channel to it.
pub(crate) struct OutputWriter {
    sender: mpsc::Sender<Chunk>,
    writer: JoinHandle<()>,
    closed: Arc<Notify>,
}

impl OutputWriter {
    /// `aside` sends everything to stderr, because stdout is used for data.
    pub(crate) fn open(aside: bool) -> Self {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let closed = Arc::new(Notify::new());
        let notify = Arc::clone(&closed);
        let writer = std::thread::spawn(move || write(chunks, aside, &notify));
        Self {
            sender,
            writer,
            closed,
        }
    }

    /// Where a program's output goes.
    pub(crate) fn sender(&self) -> mpsc::Sender<Chunk> {
        self.sender.clone()
    }

    /// Notified when the reader of stdout has gone.
    pub(crate) fn closed(&self) -> Arc<Notify> {
        Arc::clone(&self.closed)
    }

    /// Waits until everything is written. All other senders must be gone.
    pub(crate) fn finish(self) {
        drop(self.sender);
        let _ = self.writer.join();
    }
}

fn write(mut chunks: mpsc::Receiver<Chunk>, aside: bool, closed: &Notify) {
    let mut open = true;
    while let Some(chunk) = chunks.blocking_recv() {
        let written = match chunk.stream {
            Stream::Stdout if !open => Ok(()),
            Stream::Stdout if !aside => {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(&chunk.bytes).and_then(|()| stdout.flush())
            }
            // A closed stderr is not a reason to stop.
            Stream::Stdout | Stream::Stderr => {
                let _ = std::io::stderr().lock().write_all(&chunk.bytes);
                Ok(())
            }
        };
        if written.is_err() {
            open = false;
            closed.notify_one();
        }
    }
}
