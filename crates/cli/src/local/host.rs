//! What this machine offers: which isolation the kernel allows, which programs and interfaces it has,
//! where the agent is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use contract::{env, files};
use minicluster::NodeConfig;

use super::stages::PROBE;
use super::stages::protocol::Isolation;

/// The name of the only node.
pub(crate) const NODE: &str = "this-machine";

/// What the kernel allows, and its error message if it allows nothing.
pub(crate) fn isolation() -> Result<(Isolation, String)> {
    if std::env::var_os(env::ISOLATION).is_some_and(|word| word == "bare") {
        return Ok((Isolation::Bare, format!("{} says so", env::ISOLATION)));
    }
    let answer = Command::new(binary()?)
        .arg(PROBE)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .context("cannot start this program a second time")?;
    let word = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    Ok(match Isolation::parse(&word) {
        Some(isolation) if answer.status.success() => (isolation, String::new()),
        _ => (Isolation::Bare, word),
    })
}

/// The path of this program.
pub(crate) fn binary() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find out where this program is")
}

/// The agent, if it is there.
pub(crate) fn agent() -> Option<PathBuf> {
    agent_path().ok().filter(|path| path.is_file())
}

/// Where the agent is expected: named by a variable, or beside this program.
pub(crate) fn agent_path() -> Result<PathBuf> {
    match std::env::var_os(env::AGENT) {
        Some(named) => Ok(named.into()),
        None => Ok(binary()?.with_file_name(files::AGENT_BINARY)),
    }
}

/// This machine as a node. It takes every pod: a job that asks for more than there is runs slowly, as
/// with mpirun itself.
pub(crate) fn node() -> NodeConfig {
    NodeConfig {
        name: NODE.to_owned(),
        ip: "127.0.0.1".to_owned(),
        cpu: "100000".to_owned(),
        memory: "100000Gi".to_owned(),
        extended: Vec::new(),
        pods: 100_000,
    }
}

/// Without another interface Open MPI 5 does not start, and Open MPI 4 only with extra parameters.
pub(crate) fn has_only_loopback() -> bool {
    let interfaces = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let mut others = interfaces.filter(|interface| {
        let state = std::fs::read_to_string(interface.path().join("operstate"));
        interface.file_name() != "lo" && state.is_ok_and(|state| state.trim() == "up")
    });
    others.next().is_none()
}

/// Finds a program in PATH, as a shell does.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| is_program(file))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
