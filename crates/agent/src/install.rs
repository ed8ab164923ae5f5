//! `install DIR`: run by the init container of every pod. Decides what the directory holds: this binary,
//! and links under the names by which launchers call a remote shell.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::{Context, Result};
use contract::files::{AGENT_BINARY, SHIM_NAMES};

/// Safe to run again: an init container may be restarted.
pub(crate) fn run(directory: &Path) -> Result<()> {
    let cannot = || format!("cannot install into {}", directory.display());
    fs::create_dir_all(directory).with_context(cannot)?;
    let draft = directory.join(format!(".{AGENT_BINARY}.{}", std::process::id()));
    fs::copy("/proc/self/exe", &draft).with_context(cannot)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).with_context(cannot)?;
    fs::rename(&draft, directory.join(AGENT_BINARY)).with_context(cannot)?;
    for name in SHIM_NAMES {
        let link = directory.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(cannot);
            }
            _ => symlink(AGENT_BINARY, &link).with_context(cannot)?,
        }
    }
    Ok(())
}
