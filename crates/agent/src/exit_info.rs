//! How a process ended that is not our child. Decides nothing: Linux 6.15 and later keep the status for
//! whoever holds a handle, from when the parent has collected the process. Until then the status can be
//! read from the process table; on older kernels, that is a race which is sometimes lost.

use std::os::fd::AsFd;
use std::sync::OnceLock;

use contract::env;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::frame::Ending;
use crate::settings;
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
/// The first kernel that keeps it.
const KEPT_SINCE: (u32, u32) = (6, 15);

/// Whether the kernel keeps how processes ended.
pub(crate) fn is_kept() -> bool {
    static KEPT: OnceLock<bool> = OnceLock::new();
    *KEPT.get_or_init(|| {
        let assumed = settings::variable(env::KERNEL_RELEASE);
        let release = || {
            rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned()
        };
        is_kept_by(&assumed.unwrap_or_else(release))
    })
}

fn is_kept_by(release: &str) -> bool {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    matches!((number(), number()), (Some(major), Some(minor)) if (major, minor) >= KEPT_SINCE)
}

/// How the process behind the handle ended; nothing when that cannot be known.
pub(crate) fn ending(handle: impl AsFd, process: &Process) -> Option<Ending> {
    let now = || Process::read(process.number).filter(|now| now.zombie && now.is(process));
    kept_by_kernel(&handle)
        .or_else(|| Some(Ending::from_wait_status(now()?.status)))
        // It may have been collected while we looked.
        .or_else(|| kept_by_kernel(&handle))
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
        let collected = is_kept().then_some(Ending::Code(3));
        assert_eq!(ending(&handle, &process), collected);
    }

    #[test]
    fn kernels_keep_the_status_since_one_release() {
        for release in ["6.15.0", "6.15-rc1+", "6.18.44-fc-v490", "7.0"] {
            assert!(is_kept_by(release), "{release}");
        }
        for release in ["6.14.9", "5.15.0-91-generic", "4.4", "", "6"] {
            assert!(!is_kept_by(release), "{release}");
        }
    }
}
