//! What of the machine's file system the cluster sees. Decides that nothing mounted in the cluster
//! spreads to the machine, and which of the machine's files it gets copies of instead. Must be called
//! from inside a mount namespace of its own.

use std::fs;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};

/// Lets mounts spread from here to namespaces made later, as container runtimes expect, and gives the
/// sockets and locks of this namespace a place of their own.
pub(crate) fn separate() -> Result<()> {
    let all = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    mount_change("/", all).context("cannot make the mounts shared")?;
    cover("/run")
}

/// Hides what the machine has there, and hides from the machine what is written there later.
pub(crate) fn cover(target: &str) -> Result<()> {
    mount("tmpfs", target, "tmpfs", MountFlags::empty(), None)
        .with_context(|| format!("cannot cover {target} with a memory file system"))
}

/// Shows another value of a setting under /proc/sys than the machine has, and takes what is written
/// to it. `/run` must be covered.
pub(crate) fn pretend_setting(setting: &str, value: &str) -> Result<()> {
    let shown = format!("/run/{}", setting.replace('/', "."));
    fs::write(&shown, value).with_context(|| format!("cannot write {shown}"))?;
    mount_bind(&shown, format!("/proc/sys/{setting}"))
        .with_context(|| format!("cannot mount over the setting {setting}"))
}
