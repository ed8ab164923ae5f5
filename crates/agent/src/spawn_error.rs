//! A program that cannot be started: the message, and the exit code that a shell would use. Must not
//! know whose program it is.

use std::ffi::OsStr;
use std::io;

/// The message and the exit code.
pub(crate) fn explain(program: &OsStr, error: &io::Error) -> (String, u8) {
    let (exit, hint) = match error.kind() {
        io::ErrorKind::NotFound => (127, "is it in the image and on PATH?"),
        _ => (126, "is it a program that this user may run?"),
    };
    let program = program.to_string_lossy();
    (format!("cannot run {program}: {error}; {hint}"), exit)
}
