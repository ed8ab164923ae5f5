//! Who called a shim: a launcher, whose sessions stand or fall with it. One script may run several
//! launchers, one after the other or at once. Decides which process is meant and whether it lives;
//! must not know what its sessions say.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::tree::Process;

/// Programs that only pass a call on: agents of users' own are scripts, and so is Intel's `mpirun`.
const SHELLS: [&str; 10] = [
    "sh", "ash", "bash", "busybox", "csh", "dash", "ksh", "mksh", "tcsh", "zsh",
];
/// Nobody nests scripts deeper; a loop would be the kernel's mistake.
const ANCESTORS_MAX: usize = 64;
/// The unit of start times in `/proc`: the kernel's promise to programs, whatever its own clock.
const TICKS_PER_SECOND: u64 = 100;
const NANOS_PER_TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;

/// A process for good, since its number may be given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Caller {
    /// In clock ticks since boot; first, so that the newest is the greatest.
    pub(crate) started: u64,
    pub(crate) number: i32,
}

impl Caller {
    /// The nearest ancestor of this process that is not a shell.
    pub(crate) fn of_this_process() -> Option<Self> {
        let mut process = Process::read(std::process::id().cast_signed())?;
        for _ in 0..ANCESTORS_MAX {
            process = Process::read(process.parent)?;
            if !is_shell(&process) {
                let Process {
                    started, number, ..
                } = process;
                return Some(Self { started, number });
            }
        }
        None
    }

    /// Not if it waits to be collected: it does nothing more.
    pub(crate) fn lives(self) -> bool {
        Process::read(self.number)
            .is_some_and(|process| process.started == self.started && !process.zombie)
    }
}

fn is_shell(process: &Process) -> bool {
    let number = process.number;
    // A script's own name stands in `comm`; that of another user's program is all we may read.
    let program = std::fs::read_link(format!("/proc/{number}/exe"))
        .or_else(|_| std::fs::read_to_string(format!("/proc/{number}/comm")).map(Into::into));
    let program = program.unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    SHELLS.contains(&name.trim())
}

/// Now, by the clock of start times.
pub(crate) fn ticks_since_boot() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    seconds * TICKS_PER_SECOND + nanos / NANOS_PER_TICK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_that_of_start_times() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = Process::read(child.id().cast_signed()).unwrap();
        let caller = Caller {
            started: process.started,
            number: process.number,
        };
        let now = ticks_since_boot();
        assert!(
            (caller.started..caller.started + 10 * TICKS_PER_SECOND).contains(&now),
            "{now} is not soon after {}",
            caller.started
        );
        assert!(caller.lives());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!caller.lives());
    }

    #[test]
    fn the_caller_of_this_test_is_no_shell() {
        let caller = Caller::of_this_process().unwrap();
        assert!(caller.lives());
        assert!(!is_shell(&Process::read(caller.number).unwrap()));
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "read line"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = Process::read(shell.id().cast_signed()).unwrap();
        assert!(is_shell(&process));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
