//! An MPI for the jobs of the demonstration. Decides whether one is there, and whether this user may
//! install one; must not know what it is used for.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;
use crate::packages;

/// Debian's smallest package with mpirun: no compiler comes with it.
const PACKAGE: &str = "openmpi-bin";

/// Whether there is an MPI now.
pub(super) enum Found {
    /// At this path.
    At(PathBuf),
    /// There is none, and this is what to do about it.
    Nowhere(String),
}

/// Looks for mpirun; installs it where that needs no question.
pub(super) fn ensure() -> Result<Found> {
    if let Some(path) = find("mpirun") {
        return Ok(Found::At(path));
    }
    let advice = format!("sudo apt-get install {PACKAGE}");
    let root = rustix::process::geteuid().is_root();
    let debian = find("apt-get").is_some();
    if debian && root {
        packages::ensure(&[PACKAGE])?;
    } else if debian && command::succeeds(Command::new("sudo").args(["-n", "true"])) {
        println!("$ {advice}");
        install_with_sudo().with_context(|| format!("try it by hand: {advice}"))?;
    } else {
        return Ok(Found::Nowhere(format!(
            "mpirun is missing, and you may not install it. Run this, then `make demo` again:\n\n  \
             {advice}\n\nElsewhere than on Debian and its kin: install Open MPI, so that mpirun is \
             in PATH."
        )));
    }
    Ok(match find("mpirun") {
        Some(path) => Found::At(path),
        None => {
            let path = std::env::var("PATH").unwrap_or_default();
            Found::Nowhere(format!(
                "{PACKAGE} is installed, but mpirun is not in PATH={path}"
            ))
        }
    })
}

fn install_with_sudo() -> Result<()> {
    let apt_get = |words: &[&str]| {
        let mut command = Command::new("sudo");
        command.args(["-n", "apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300"]);
        command::output(command.args(words)).map(drop)
    };
    apt_get(&["update"])?;
    apt_get(&["install", "--yes", "--no-install-recommends", PACKAGE])
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}
