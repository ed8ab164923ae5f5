//! The stages of a container before its program starts: stage one enters new namespaces, stage two is
//! the first process in them. Both are this binary again, because namespaces belong to a process.
//! Decides which stage runs.
//!
//! `protocol` is what the runner and the stages send each other.

mod descendants;
mod init;
mod namespaces;
mod network;
pub(crate) mod protocol;
mod rootfs;
mod unshare;

use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments that select a stage.
pub(crate) const ENTER: &str = "__enter";
pub(crate) const FIRST: &str = "__first";
pub(crate) const PROBE: &str = "__probe";
pub(crate) const BRIDGE: &str = "__bridge";
pub(crate) const NETWORK: &str = "__network";
pub(crate) const CONNECT: &str = "__connect";

/// Runs a stage, if the arguments name one.
pub(crate) fn dispatch(words: &[OsString]) -> Option<ExitCode> {
    let word = words.get(1)?.to_str()?;
    let rest: Vec<&str> = words[2..].iter().filter_map(|word| word.to_str()).collect();
    let mode = rest.first().copied().unwrap_or("");
    Some(match word {
        ENTER => namespaces::enter(mode, rest.get(1).copied()),
        FIRST => init::run(mode),
        PROBE => namespaces::probe(),
        BRIDGE => network::bridge(mode),
        NETWORK => network::pod(&rest),
        CONNECT => network::connect(mode),
        _ => return None,
    })
}
