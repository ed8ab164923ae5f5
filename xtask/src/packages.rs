//! Debian packages that a chore needs. Decides only which are missing, and installs those; must not
//! know what they are used for.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::command;

/// A font for the browser in which pages are tested. Without it, Debian's browser writes nothing; other systems have fonts.
pub(crate) const BROWSER_FONT: &str = "fonts-dejavu-core";

/// Installs those of the packages that are missing. Without root it says what to install instead.
pub(crate) fn ensure(packages: &[&str]) -> Result<()> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = missing.join(" ");
    if !is_debian() {
        bail!("programs are missing that Debian has in the packages {wanted}");
    }
    if !rustix::process::geteuid().is_root() {
        bail!("Debian packages are missing; as root run: apt-get install {wanted}");
    }
    eprintln!("installing Debian packages: {wanted}");
    // Builds run side by side, and the policy below must stay until the last of them is done.
    let lock = File::open(DATABASE).with_context(|| format!("cannot open {DATABASE}"))?;
    lock.lock()
        .with_context(|| format!("cannot lock {DATABASE}"))?;
    update_lists_once()?;
    let _quiet = NoServices::hold()?;
    command::output(
        apt_get()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&missing),
    )?;
    Ok(())
}

/// Whether packages can be installed here.
pub(crate) fn is_debian() -> bool {
    on_path("dpkg-query").is_some() && on_path("apt-get").is_some()
}

/// Those of the packages that this machine lacks. Where there are none of Debian's, a package is there if its program is.
pub(crate) fn missing(packages: &[&str]) -> Vec<String> {
    let debian = is_debian();
    let has = |package: &&&str| match debian {
        true => is_installed(package).unwrap_or(false),
        false => PROGRAMS
            .iter()
            .any(|(known, program)| *known == **package && on_path(program).is_some()),
    };
    let missing = packages.iter().filter(|package| !has(package));
    missing.map(|package| (*package).to_owned()).collect()
}

/// A program of this name.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|directory| directory.join(program));
    found.find(|file| file.is_file())
}

/// A program of each package that tests on any Linux need.
const PROGRAMS: [(&str, &str); 13] = [
    ("openssh-client", "ssh-keygen"),
    ("openssh-server", "sshd"),
    ("procps", "ps"),
    ("iproute2", "ip"),
    ("pdsh", "pdsh"),
    ("python3-venv", "python3"),
    ("libopenmpi-dev", "mpicc"),
    ("openmpi-bin", "mpirun"),
    ("mpich", "mpiexec.hydra"),
    ("lammps", "lmp"),
    ("hpcc", "hpcc"),
    ("chromium", "chromium"),
    (BROWSER_FONT, "chromium"),
];

/// Where Debian keeps what is installed: a thing to lock that is there anyway.
const DATABASE: &str = "/var/lib/dpkg";
/// Debian asks this file whether a package may start its service. A machine that is to run tests has
/// not asked for a server on its network.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Told from the machine's own by its second line, also if an earlier run was killed before it could
/// take it away.
const POLICY_TEXT: &str = "#!/bin/sh\n# of a test run of muster: may be removed\nexit 101\n";

/// While it lives, no package starts a service.
struct NoServices {
    ours: bool,
}

impl NoServices {
    /// A policy that is there already is the machine's own.
    fn hold() -> Result<Self> {
        let ours = fs::read_to_string(POLICY).map_or_else(
            |error| error.kind() == ErrorKind::NotFound,
            |text| text == POLICY_TEXT,
        );
        if ours {
            fs::write(POLICY, POLICY_TEXT)
                .and_then(|()| fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)))
                .with_context(|| format!("cannot write {POLICY}"))?;
        }
        Ok(Self { ours })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!("cannot remove {POLICY}: {error}; remove it, or no service starts any more");
        }
    }
}

fn is_installed(package: &str) -> Result<bool> {
    let mut query = Command::new("dpkg-query");
    let output = query
        .args(["-W", "-f=${db:Status-Status}", package])
        .output();
    let output = output.context("cannot ask dpkg-query which Debian packages are installed")?;
    // Ended by a signal it has said nothing, least of all that the package is missing.
    if output.status.code().is_none() {
        bail!("dpkg-query was interrupted");
    }
    Ok(output.status.success() && output.stdout == b"installed")
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
