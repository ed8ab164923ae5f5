//! Signals as a descriptor to poll. Decides nothing about them; handlers do no work.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

/// Signals that came in since they were last taken.
pub(crate) struct Signals {
    wake: OwnedFd,
    flags: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    /// From now on these signals are only recorded. The default action of a watched signal never comes
    /// back.
    pub(crate) fn watch(signals: &[i32]) -> io::Result<Self> {
        let (wake, written) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut flags = Vec::new();
        for signal in signals {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(*signal, flag.clone())?;
            // After the flag, so that a reader who wakes up finds it set.
            signal_hook::low_level::pipe::register(*signal, written.try_clone()?)?;
            flags.push((*signal, flag));
        }
        Ok(Self { wake, flags })
    }

    /// The signals that came in, each once.
    pub(crate) fn take(&self) -> Vec<i32> {
        let mut scratch = [0_u8; 64];
        while rustix::io::read(&self.wake, &mut scratch[..]).is_ok_and(|bytes| bytes > 0) {}
        let came = |(signal, flag): &(i32, Arc<AtomicBool>)| {
            flag.swap(false, Ordering::SeqCst).then_some(*signal)
        };
        self.flags.iter().filter_map(came).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
