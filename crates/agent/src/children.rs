//! Starts processes and reaps those that end: our children, and every orphan that the kernel gives us.
//! Decides where an exit status goes; must not know what the processes are for.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, wait};

use crate::frame::Ending;
use crate::poll::poll;
use crate::signals::Signals;
use crate::tree::Process;

/// Processes are reaped at least this often, even if a signal was missed.
const REAP_INTERVAL: Duration = Duration::from_secs(5);

/// How a child ended, once it has; can be polled for.
pub(crate) struct Exit {
    event: OwnedFd,
    ending: OnceLock<Ending>,
}

impl Exit {
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.get().copied()
    }
}

impl AsFd for Exit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// A process that we started.
pub(crate) struct Child {
    /// With its start time, so that a later process with the same number is not taken for it.
    pub(crate) process: Process,
    pub(crate) exit: Arc<Exit>,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// All children of this process.
#[derive(Clone, Default)]
pub(crate) struct Children {
    waiting: Arc<Mutex<HashMap<i32, Arc<Exit>>>>,
}

impl Children {
    /// Becomes the parent of every orphan below this process, and starts to reap.
    pub(crate) fn adopt() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let children = Self::default();
        let signals = Signals::watch(&[signal_hook::consts::SIGCHLD])?;
        let reaper = children.clone();
        std::thread::Builder::new()
            .name("reaper".into())
            .stack_size(64 * 1024)
            .spawn(move || {
                loop {
                    let mut fds = [PollFd::new(&signals, PollFlags::IN)];
                    // If poll fails, the loop goes on at its interval.
                    let _ = poll(&mut fds, REAP_INTERVAL);
                    signals.take();
                    reaper.reap();
                }
            })?;
        Ok(children)
    }

    /// Holds the lock while a child starts: if it were reaped now, its status would be lost.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let mut waiting = self.lock();
        let mut child = command.spawn()?;
        let number = i32::try_from(child.id()).expect("a process number fits the kernel's type");
        let exit = Arc::new(Exit {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            ending: OnceLock::new(),
        });
        waiting.insert(number, exit.clone());
        let process = Process::read(number).ok_or(io::ErrorKind::NotFound)?;
        Ok(Child {
            process,
            exit,
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        })
    }

    fn reap(&self) {
        let mut waiting = self.lock();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(exit) = waiting.remove(&Pid::as_raw(Some(pid))) {
                let ending = Ending::from_wait_status(status.as_raw());
                exit.ending
                    .set(ending)
                    .expect("a process ends once, and then leaves the table");
                // The counter cannot be full: this is the only write.
                let _ = rustix::io::write(&exit.event, &1_u64.to_ne_bytes());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Arc<Exit>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
