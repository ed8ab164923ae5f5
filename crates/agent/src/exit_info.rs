//! How a process ended that is not our child. Decides nothing: Linux 6.15 and later keep the status
//! for whoever holds a handle; before that only a zombie that its parent has not yet collected can
//! be read, which is a race that is often won and sometimes lost.

use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::frame::Ending;
use crate::tree::Process;

/// The kernel's `struct pidfd_info`, first published size.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    identities: [u32; 11],
    exit_code: i32,
}

const INFO_EXIT: u64 = 1 << 3;
const GET_INFO: Opcode = opcode::read_write::<PidfdInfo>(0xff, 11);

/// How the process behind the handle ended; nothing when that cannot be known.
pub(crate) fn ending(handle: impl AsFd, process: &Process) -> Option<Ending> {
    kept_by_kernel(handle).or_else(|| {
        let now = Process::read(process.number)?;
        (now.zombie && now.is(process)).then(|| Ending::from_wait_status(now.status))
    })
}

#[expect(
    unsafe_code,
    reason = "no crate of ours wraps this ioctl, and nothing else tells how a stranger ended"
)]
fn kept_by_kernel(handle: impl AsFd) -> Option<Ending> {
    let mut info = PidfdInfo {
        mask: INFO_EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: GET_INFO reads and writes one `PidfdInfo`, whose size is part of the number; kernels
    // that do not know it refuse it and write nothing.
    unsafe { ioctl(handle, Updater::<GET_INFO, _>::new(&mut info)) }.ok()?;
    (info.mask & INFO_EXIT != 0).then(|| Ending::from_wait_status(info.exit_code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_zombie_tells_its_code() {
        let child = Command::new("/bin/sh").args(["-c", "exit 3"]).spawn();
        let mut child = child.unwrap();
        let number = child.id().cast_signed();
        let process = Process::read(number).unwrap();
        let handle = pidfd_open(Pid::from_raw(number).unwrap(), PidfdFlags::empty()).unwrap();
        let mut fds = [PollFd::new(&handle, PollFlags::IN)];
        crate::poll::poll(&mut fds, Duration::from_secs(10)).unwrap();
        assert_eq!(ending(&handle, &process), Some(Ending::Code(3)));
        child.wait().unwrap();
        // Collected: only a kernel that keeps the status can still tell it.
        let later = ending(&handle, &process);
        assert!(matches!(later, None | Some(Ending::Code(3))), "{later:?}");
    }
}
