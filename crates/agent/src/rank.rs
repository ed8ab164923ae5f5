//! `rank PROGRAM…`: what a launcher's daemon runs in place of a rank's program, so that the worker's
//! session learns of every rank and how it ended. Decides how the program is run, so that neither the
//! program nor the daemon can tell the difference. Must not know what the session does with a report.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Result, bail};
use contract::mpi::MpiLauncher;
use rustix::fs::{Access, access};
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid, pidfd_open, setrlimit};
use signal_hook::consts::{SIGABRT, SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::frame::{Ending, RankState};
use crate::ranks::{self, Identity, Reporter};
use crate::signals::Signals;
use crate::{exit_info, spawn_error};

/// Daemons send these to the process group of a rank, and its parent is a member.
const GROUP_SIGNALS: [i32; 8] = [
    SIGABRT, SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
];

/// Reports the rank and becomes its program. Returns only if that failed, or if this process had to
/// stay the program's parent.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("rank needs a program");
    };
    let mut command = Command::new(found(program));
    command.arg0(program).args(arguments);
    let reporter = Identity::of(|name| std::env::var_os(name).map(OsStringExt::into_vec))
        .and_then(Reporter::of_environment);
    forget_wrapper(&mut command);
    // On kernels that keep how a process ended, the session reads it from a handle. A parent of a
    // rank of Hydra would hold the rank's connection to its launcher open.
    let stays = !exit_info::is_kept() && std::env::var_os("PMI_FD").is_none();
    let error = match reporter {
        Some(mut reporter) if stays => match as_parent(&mut command, &mut reporter) {
            Ok(status) => return Ok(end_like(status)),
            Err(error) => error,
        },
        Some(mut reporter) => {
            let handle = pidfd_open(getpid(), PidfdFlags::empty());
            reporter.send(RankState::Running, handle.as_ref().ok());
            command.exec()
        }
        None => command.exec(),
    };
    let (message, exit) = spawn_error::explain(program, &error);
    eprintln!("muster-agent: {message}");
    Ok(exit)
}

/// Daemons also start a program by its name alone from the working directory, where PATH has none.
fn found(program: &OsStr) -> OsString {
    let runs = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let here = Path::new(".").join(program);
    if program.as_bytes().contains(&b'/')
        || std::env::split_paths(&path).any(|directory| runs(&directory.join(program)))
        || !runs(&here)
    {
        return program.to_owned();
    }
    here.into()
}

/// A launcher that a rank starts itself must not put the wrapper in front of its own ranks.
fn forget_wrapper(command: &mut Command) {
    let Ok(wrapper) = ranks::wrapper() else {
        return;
    };
    for name in MpiLauncher::all().filter_map(|launcher| launcher.rank_wrapper.variable()) {
        let value = std::env::var_os(name).unwrap_or_default();
        if value.as_bytes().starts_with(wrapper.as_bytes()) {
            command.env_remove(name);
        }
    }
}

fn as_parent(command: &mut Command, reporter: &mut Reporter) -> std::io::Result<ExitStatus> {
    // Only noted, not acted on: the program gets them too, and decides.
    let _signals = Signals::watch(&GROUP_SIGNALS)?;
    let mut child = command.spawn()?;
    reporter.send(RankState::Running, None);
    let status = child.wait()?;
    let ending = Ending::from_wait_status(status.into_raw());
    reporter.send(RankState::Ended(ending), None);
    Ok(status)
}

/// The daemon must see what it would have seen of the program.
fn end_like(status: ExitStatus) -> u8 {
    let none = Some(0);
    if let Some(signal) = status.signal() {
        // One core file is enough.
        let _ = setrlimit(
            Resource::Core,
            Rlimit {
                current: none,
                maximum: none,
            },
        );
        // Returns for a signal that does not end a process by default.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    Ending::from_wait_status(status.into_raw()).shell_code()
}
