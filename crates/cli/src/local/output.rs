//! A program's output on its way to our own stdout and stderr. A thread of its own writes, so that
//! a reader who is slow slows the program down and nothing else.

use std::io::Write as _;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{Notify, mpsc};

use super::runner::container::Chunk;
use super::runner::log::Stream;

/// Chunks that may wait before the program has to.
const CHUNKS_MAX: usize = 16;

/// The way to our own output.
pub(crate) struct Output {
    sender: mpsc::Sender<Chunk>,
    writer: JoinHandle<()>,
    closed: Arc<Notify>,
}

impl Output {
    /// `aside` sends everything to stderr, because stdout is for something else.
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

    /// For a program.
    pub(crate) fn sender(&self) -> mpsc::Sender<Chunk> {
        self.sender.clone()
    }

    /// Heard when nobody reads our stdout any more.
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
            // Nobody at the other end of stderr is no reason to stop.
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
