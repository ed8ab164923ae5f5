//! Debian packages that a chore needs. Decides only which are missing, and installs those; must not
//! know what they are used for.

use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::command;

/// Installs those of the packages that are missing. Without root it says what to install instead.
pub(crate) fn ensure(packages: &[&str]) -> Result<()> {
    let missing: Vec<_> = packages
        .iter()
        .copied()
        .filter(|name| !is_installed(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = missing.join(" ");
    if !rustix::process::geteuid().is_root() {
        bail!("Debian packages are missing; as root run: apt-get install {wanted}");
    }
    eprintln!("installing Debian packages: {wanted}");
    update_lists_once()?;
    command::output(
        apt_get()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&missing),
    )?;
    Ok(())
}

fn is_installed(package: &str) -> bool {
    command::output(Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", package]))
        .is_ok_and(|status| status == "installed")
}

fn update_lists_once() -> Result<()> {
    static UPDATED: OnceLock<()> = OnceLock::new();
    if UPDATED.get().is_none() {
        command::output(apt_get().arg("update"))?;
        UPDATED.get_or_init(|| ());
    }
    Ok(())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["--quiet", "-o", "DPkg::Lock::Timeout=300"])
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}
