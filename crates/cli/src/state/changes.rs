//! Waits until something changes in directories of this machine, without looking again and again. Must not know what
//! is in them.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

/// Enough for some events; what they say is not read.
const BUFFER_BYTES: usize = 4096;

/// Changes of files in some directories, from now on.
pub(crate) struct Changes {
    /// The kernel's queue is read like a pipe.
    events: Receiver,
}

impl Changes {
    /// In those of the directories that exist.
    pub(crate) fn of(directories: &[PathBuf]) -> Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .context("cannot watch directories")?;
        let wanted =
            WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        for directory in directories {
            // One that has gone meanwhile will not change any more.
            let _ = inotify::add_watch(&events, directory, wanted);
        }
        let events =
            Receiver::from_owned_fd_unchecked(events).context("cannot watch directories")?;
        Ok(Self { events })
    }

    /// Waits for the next change.
    pub(crate) async fn next(&self) -> std::io::Result<()> {
        loop {
            self.events.readable().await?;
            match self.events.try_read(&mut [0; BUFFER_BYTES]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
