//! A host name of its own for a command on a node's network, where all pods have the node's name. Open
//! MPI 5 takes two daemons with one host name for one host, and then hangs; other launchers do not.
//! Decides how the name is set: directly where permitted, else in a user namespace. Must not know
//! which command runs.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Result, bail};
use contract::exit_code;
use rustix::process::{getgid, getuid};
use rustix::system::sethostname;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Whether the command must not run under the node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Needed,
    Wanted,
}

impl Need {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Wanted => "wanted",
        }
    }

    fn of(word: &OsString) -> Option<Self> {
        let all = [Self::Needed, Self::Wanted];
        all.into_iter().find(|need| word == need.word())
    }
}

/// The kernel's limit.
const NAME_BYTES_MAX: usize = 64;

/// `as needed|wanted NAME COMMAND…`: for `serve`, which has threads and so cannot do this itself.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let [need, name, program, arguments @ ..] = words else {
        bail!("as needs a word, a name and a command");
    };
    let Some(need) = Need::of(need) else {
        bail!("as begins with needed or wanted");
    };
    if let Err(error) = take(name.as_bytes()) {
        let name = name.to_string_lossy();
        let why = "two daemons of Open MPI 5 with one host name hang";
        if need == Need::Needed {
            bail!(
                "cannot give {name} a host name of its own on this node's network ({error}), and \
                 {why}; let pods make user namespaces (seccomp), keep workers on different nodes, or \
                 use another MPI"
            );
        }
        eprintln!("muster-agent: cannot give {name} a host name of its own ({error}); {why}");
    }
    let error = Command::new(program).args(arguments).exec();
    eprintln!(
        "muster-agent: cannot run {}: {error}",
        program.to_string_lossy()
    );
    Ok(exit_code::SHIM_FAILED)
}

fn take(name: &[u8]) -> io::Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    if unshare(UnshareFlags::NEWUTS).is_err() {
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWUTS)?;
        // Users keep their IDs. The kernel wants the first line before the last.
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    Ok(sethostname(name)?)
}

#[expect(
    unsafe_code,
    reason = "rustix marks it so for flags that are not used here"
)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: neither flag separates memory or file descriptors from other threads.
    Ok(unsafe { unshare_unsafe(flags) }?)
}
