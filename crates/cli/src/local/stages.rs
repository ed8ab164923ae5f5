//! The two stages that a container's process goes through before its program starts.

use std::ffi::OsString;
use std::process::ExitCode;

/// The exit code, if the words name a stage.
pub(crate) fn dispatch(_words: &[OsString]) -> Option<ExitCode> {
    None
}
