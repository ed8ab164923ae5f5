//! `poll` with a timeout. Decides that a signal ends the wait without an error.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, Timespec};

/// Waits for one of the descriptors or the time, whichever comes first.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    // Rounded up: a wait that ends a moment early would only be repeated.
    let timeout = timeout + Duration::from_micros(500);
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match rustix::event::poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
