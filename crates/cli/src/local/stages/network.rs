//! The network of a run: one process holds a bridge, and one process per pod holds a network namespace
//! with a veth pair to the bridge. Containers enter the namespace of their pod's process. The program
//! `ip` configures all of it. The processes end with the runner.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use super::protocol::Isolation;
use super::unshare::{enter_new, keep_capabilities, map_ourselves};

/// The bridge's own address and the width of the network.
const BRIDGE_ADDRESS: &str = "10.88.0.1/16";
const WIDTH: &str = "16";

/// Holds the bridge. Words: the isolation.
pub(super) fn bridge(mode: &str) -> ExitCode {
    hold(|| {
        if Isolation::parse(mode) == Some(Isolation::User) {
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            enter_new(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
            map_ourselves(user, group)?;
            keep_capabilities()?;
        } else {
            enter_new(UnshareFlags::NEWNET)?;
        }
        ip(&["link", "add", "br0", "type", "bridge"])?;
        ip(&["address", "add", BRIDGE_ADDRESS, "dev", "br0"])?;
        ip(&["link", "set", "br0", "up"])?;
        ip(&["link", "set", "lo", "up"])
    })
}

/// Holds one pod's network. Words: the isolation, the bridge's process, a number, the address.
pub(super) fn pod(words: &[&str]) -> ExitCode {
    let [mode, bridge, number, address] = words else {
        return ExitCode::FAILURE;
    };
    hold(|| {
        let holder = pidfd(bridge)?;
        if Isolation::parse(mode) == Some(Isolation::User) {
            move_into_thread_name_spaces(holder.as_fd(), ThreadNameSpaceType::USER)?;
            keep_capabilities()?;
        }
        enter_new(UnshareFlags::NEWNET)?;
        let me = std::process::id().to_string();
        let cable = format!("pod{number}");
        let there = ["--target", bridge, "--net", "ip"];
        let add = [
            "link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &me,
        ];
        run("nsenter", &[&there[..], &add[..]].concat())?;
        let join = ["link", "set", &cable, "master", "br0", "up"];
        run("nsenter", &[&there[..], &join[..]].concat())?;
        ip(&[
            "address",
            "add",
            &format!("{address}/{WIDTH}"),
            "dev",
            "eth0",
        ])?;
        ip(&["link", "set", "eth0", "up"])?;
        ip(&["link", "set", "lo", "up"])
    })
}

/// Whether something listens. Words: the address.
pub(super) fn connect(address: &str) -> ExitCode {
    match std::net::TcpStream::connect(address) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Enters the network of a pod's holder, and its user namespace first where there is one.
pub(super) fn join(isolation: Isolation, holder: &str) -> io::Result<()> {
    let holder = pidfd(holder)?;
    if isolation == Isolation::User {
        move_into_thread_name_spaces(holder.as_fd(), ThreadNameSpaceType::USER)?;
    }
    move_into_thread_name_spaces(holder.as_fd(), ThreadNameSpaceType::NETWORK)?;
    Ok(())
}

fn pidfd(number: &str) -> io::Result<rustix::fd::OwnedFd> {
    let pid = number.parse().ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other(format!("{number:?} is no process")))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Prepares, says so, and stays until stdin ends.
fn hold(prepare: impl FnOnce() -> io::Result<()>) -> ExitCode {
    let prepared = prepare();
    // After the change of credentials, which would undo it.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let said = match &prepared {
        Ok(()) => "ready".to_owned(),
        Err(error) => error.to_string(),
    };
    let _ = writeln!(io::stdout(), "{said}");
    if prepared.is_err() {
        return ExitCode::FAILURE;
    }
    let _ = io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

fn ip(words: &[&str]) -> io::Result<()> {
    run("ip", words)
}

fn run(program: &str, words: &[&str]) -> io::Result<()> {
    let output = Command::new(program)
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::other(format!("cannot run {program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().next().unwrap_or_default();
    Err(io::Error::other(format!(
        "{program} {}: {line}",
        words.join(" ")
    )))
}
