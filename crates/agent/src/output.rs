//! One of our own output streams, and what is still to be written to it. Decides how much is written at
//! once; must not know where the bytes come from.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

/// A pipe that poll reports as writable takes this much without blocking. We cannot make it
/// non-blocking, since other processes may share it.
const WRITE_BYTES_MAX: usize = 4096;
/// While more than this is queued, we read nothing from the worker.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

pub(crate) struct Output {
    pub(crate) fd: BorrowedFd<'static>,
    queue: VecDeque<u8>,
}

impl Output {
    pub(crate) fn new(fd: BorrowedFd<'static>) -> Self {
        Self {
            fd,
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn take(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.queue.extend(bytes);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() < OUTPUT_BYTES_MAX
    }

    pub(crate) fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Writes as much as poll promises.
    pub(crate) fn write_some(&mut self) -> Result<(), Errno> {
        let (front, _) = self.queue.as_slices();
        match rustix::io::write(self.fd.as_fd(), &front[..front.len().min(WRITE_BYTES_MAX)]) {
            Ok(written) => drop(self.queue.drain(..written)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits for the reader until everything is written.
    pub(crate) fn write_all(&mut self) {
        while self.waits() && self.write_some().is_ok() {}
    }
}
