//! Stage one: enters new namespaces and starts stage two in them. Users other than root get a user
//! namespace first, in which they keep their identity.
//!
//! Nothing here may start a thread: a process with several cannot enter a user namespace.

use std::io;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

use super::protocol::Isolation;
use super::unshare::{enter_new, keep_capabilities, map_ourselves};
use super::{FIRST, network};

/// Exits with the code of stage two. The runner does not read it: events travel over the socket.
pub(super) fn enter(mode: &str, network: Option<&str>) -> ExitCode {
    let Some(isolation) = Isolation::parse(mode) else {
        eprintln!("muster: {mode:?} is not a way to enter a container");
        return ExitCode::FAILURE;
    };
    let child = unshare(isolation, network).and_then(|()| start(&["self"], isolation));
    match child.and_then(|mut child| child.wait()) {
        Ok(status) => ExitCode::from(u8::try_from(status.code().unwrap_or(137)).unwrap_or(137)),
        Err(error) => {
            eprintln!("muster: cannot make namespaces for a container: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints which isolation works here.
pub(super) fn probe() -> ExitCode {
    let isolation = if rustix::process::geteuid().is_root() {
        [Isolation::Root, Isolation::User]
    } else {
        [Isolation::User, Isolation::User]
    };
    let mut refusal = None;
    for isolation in isolation {
        match unshare(isolation, None).and_then(|()| start(&["probe"], isolation)?.wait()) {
            Ok(status) if status.success() => {
                println!("{}", isolation.as_str());
                return ExitCode::SUCCESS;
            }
            Ok(_) => refusal = Some("a mount was refused in them".to_owned()),
            Err(error) => refusal = Some(error.to_string()),
        }
    }
    println!("{}", refusal.unwrap_or_default());
    ExitCode::FAILURE
}

fn unshare(isolation: Isolation, network: Option<&str>) -> io::Result<()> {
    let kinds =
        UnshareFlags::NEWNS | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC | UnshareFlags::NEWPID;
    match (isolation, network) {
        (Isolation::Bare, _) => return Ok(()),
        (Isolation::Root, None) => enter_new(kinds)?,
        (Isolation::Root, Some(holder)) => {
            network::join(isolation, holder)?;
            enter_new(kinds)?;
        }
        (Isolation::User, None) => {
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            enter_new(kinds | UnshareFlags::NEWUSER)?;
            map_ourselves(user, group)?;
            keep_capabilities()?;
        }
        (Isolation::User, Some(holder)) => {
            network::join(isolation, holder)?;
            enter_new(kinds)?;
            keep_capabilities()?;
        }
    }
    // After the change of credentials, which would reset it. Until then the closed socket ends stage
    // two.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

fn start(words: &[&str], isolation: Isolation) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(FIRST);
    match words {
        ["probe"] => command.arg("probe").stdin(Stdio::null()),
        _ => command.arg(isolation.as_str()),
    };
    command.spawn()
}
