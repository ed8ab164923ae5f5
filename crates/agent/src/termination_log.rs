//! The termination message of the agent's container, which the operator reads from the pod's status.
//! Decides where it is written; must not know what it means.

use contract::env;
use contract::files::{TERMINATION_BYTES_MAX, TERMINATION_LOG};

use crate::settings;

/// Writes the message where the kubelet reads it. A container without that file has no reader.
pub(crate) fn write(message: &str) {
    let file = settings::path(env::TERMINATION_LOG, TERMINATION_LOG);
    let end = message.floor_char_boundary(TERMINATION_BYTES_MAX);
    if let Err(error) = std::fs::write(&file, &message[..end])
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("muster-agent: cannot write {}: {error}", file.display());
    }
}
