//! The layers of the test images, each built once by a script of `e2e/images` and kept in the cache.
//! Decides what a layer is built from and on top of; must not know which images use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::catalog::{Family, Stack};
use super::rootfs::{self, NOT_IN_LAYERS, Network, Root};
use crate::{cache, command, packages, root};

const SUITE: &str = "bookworm";
const BASE_PACKAGES: &str = "procps,usr-is-merged";
const NOT_UNPACKED: &[&str] = &[
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/usr/lib/x86_64-linux-gnu/gconv/*",
];

/// Everything that decides what an artefact becomes: what its script reads, and its cache key.
#[derive(Default)]
pub(super) struct Inputs {
    pub(super) key: Vec<Vec<u8>>,
    copies: Vec<(String, PathBuf)>,
}

impl Inputs {
    /// A value that no script reads but that matters.
    pub(super) fn value(mut self, value: &str) -> Inputs {
        self.key.push(value.as_bytes().to_owned());
        self
    }

    /// A file, as seen from `e2e/images`, under its own name.
    pub(super) fn file(mut self, path: &str) -> Result<Inputs> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let path = scripts().join(path);
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        self.key.extend([name.as_bytes().to_owned(), content]);
        self.copies.push((name.to_owned(), path));
        Ok(self)
    }

    /// Files of cached artefacts that stay where they are. An artefact's directory has its key in
    /// its name, so the path says what the file holds.
    pub(super) fn cached(mut self, role: &str, paths: &[PathBuf]) -> Result<Inputs> {
        let root = cache::dir()?;
        self.key.push(role.as_bytes().to_owned());
        for path in paths {
            let relative = path.strip_prefix(&root).with_context(|| {
                format!("{} is not in the cache {}", path.display(), root.display())
            })?;
            self.key
                .push(relative.to_string_lossy().into_owned().into());
        }
        Ok(self)
    }

    /// A file or directory of a cached artefact that the script reads under the given name.
    fn copied(self, name: &str, path: PathBuf) -> Result<Inputs> {
        let mut inputs = self.cached(name, std::slice::from_ref(&path))?;
        inputs.copies.push((name.to_owned(), path));
        Ok(inputs)
    }

    pub(super) fn copy_into(&self, directory: &Path) -> Result<()> {
        for (name, source) in &self.copies {
            command::output(
                Command::new("cp")
                    .args(["--archive", "--no-target-directory"])
                    .arg(source)
                    .arg(directory.join(name)),
            )?;
        }
        Ok(())
    }
}

/// Where the scripts and files of the test images are.
pub(super) fn scripts() -> PathBuf {
    root().join("e2e/images")
}

/// The layers of a test image, bottom first.
pub(super) fn of(stack: &Stack) -> Result<Vec<PathBuf>> {
    let base = debian()?;
    let mut layers = vec![base.join("layer.tar")];
    if stack.ssh {
        layers.push(ssh(&base)?.join("layer.tar"));
    }
    layers.push(family(&base, stack.family)?.join("layer.tar"));
    if let Some(tools) = stack.tools {
        let script = format!("{tools}.sh");
        let words = ["sh", &format!("/mnt/in/{script}")];
        let inputs = Inputs::default().file(&script)?;
        layers.push(layer(tools, &base, inputs, &words)?.join("layer.tar"));
    }
    Ok(layers)
}

/// The base: `layer.tar` for images, and `root`, which still has its package manager's state, to
/// build other layers on.
fn debian() -> Result<PathBuf> {
    let inputs = Inputs::default()
        .value(SUITE)
        .value(BASE_PACKAGES)
        .value(&NOT_UNPACKED.join(" "))
        .value(&NOT_IN_LAYERS.join(" "))
        .file("debian.sh")?;
    cache::keyed("layer-debian", &inputs.key, |directory| {
        packages::ensure(&["mmdebstrap"])?;
        eprintln!("building layer debian");
        let root = directory.join("root");
        let mut command = rootfs::isolated();
        command
            .args(["--mount-proc", "--", "mmdebstrap", "--quiet", "--mode=root"])
            .args(["--variant=apt", "--format=directory"])
            .arg(format!("--include={BASE_PACKAGES}"))
            .arg("--aptopt=APT::Install-Recommends \"false\"");
        for pattern in NOT_UNPACKED {
            command.arg(format!("--dpkgopt=path-exclude={pattern}"));
        }
        let finish = scripts().join("debian.sh");
        command.arg(format!(
            "--customize-hook=copy-in '{}' /tmp",
            finish.display()
        ));
        command.arg("--customize-hook=chroot \"$1\" sh /tmp/debian.sh");
        command.arg(SUITE).arg(&root).args(own_apt_sources());
        command::output(&mut command)?;
        rootfs::pack(&root, &directory.join("layer.tar"))
    })
}

/// The machine's own Debian sources, if they are where Debian puts them; else the bootstrap's own.
fn own_apt_sources() -> Option<&'static str> {
    const USUAL: [&str; 2] = [
        "/etc/apt/sources.list.d/debian.sources",
        "/etc/apt/sources.list",
    ];
    USUAL
        .into_iter()
        .find(|path| fs::read_to_string(path).is_ok_and(|sources| sources.contains(SUITE)))
}

/// A compiler above the base, as a directory to build in.
fn toolchain(base: &Path) -> Result<PathBuf> {
    let lowers = [base.join("root")];
    let inputs = Inputs::default()
        .cached("lowers", &lowers)?
        .file("enter.sh")?
        .file("toolchain.sh")?;
    let made = cache::keyed("toolchain", &inputs.key, |directory| {
        eprintln!("building the toolchain");
        let scratch = directory.join("scratch");
        let root = Root::new(&scratch, &lowers, &inputs)?;
        root.enter(Network::Machine, &["sh", "/mnt/in/toolchain.sh"])?;
        keep(&root.changes(), &directory.join("root"), &scratch)
    })?;
    Ok(made.join("root"))
}

fn ssh(base: &Path) -> Result<PathBuf> {
    let inputs = Inputs::default()
        .file("ssh.sh")?
        .file("ssh_config")?
        .file("sshd_config")?
        .file("mpiuser.sshd_config")?;
    layer("ssh", base, inputs, &["sh", "/mnt/in/ssh.sh"])
}

fn family(base: &Path, family: &Family) -> Result<PathBuf> {
    let script = format!("{}.sh", family.name);
    let inside = format!("/mnt/in/{script}");
    let mut sources = Inputs::default()
        .file(&script)?
        .file("pi.c")?
        .file("misbehave.c")?;
    for file in family.files {
        sources = sources.file(file)?;
    }
    for wheel in family.wheels {
        sources = sources.copied(wheel.package, wheel.unpacked()?.join("root"))?;
    }
    let lowers = [base.join("root"), toolchain(base)?];
    let sources = sources.cached("lowers", &lowers)?.file("enter.sh")?;
    let name = format!("programs-{}", family.name);
    let programs = cache::keyed(&name, &sources.key, |directory| {
        eprintln!("compiling for {}", family.name);
        let scratch = directory.join("scratch");
        let root = Root::new(&scratch, &lowers, &sources)?;
        root.enter(Network::Machine, &["sh", &inside, "compile"])?;
        keep(&root.out(), &directory.join("programs"), &scratch)
    })?;

    let inputs = sources
        .copied("programs", programs.join("programs"))?
        .file("entrypoint.sh")?;
    layer(family.name, base, inputs, &["sh", &inside, "install"])
}

/// What a script changes in the base, as a layer.
fn layer(name: &str, base: &Path, inputs: Inputs, words: &[&str]) -> Result<PathBuf> {
    let lowers = [base.join("root")];
    let inputs = inputs
        .value(&NOT_IN_LAYERS.join(" "))
        .cached("lowers", &lowers)?
        .file("enter.sh")?;
    cache::keyed(&format!("layer-{name}"), &inputs.key, |directory| {
        eprintln!("building layer {name}");
        let scratch = directory.join("scratch");
        let root = Root::new(&scratch, &lowers, &inputs)?;
        root.enter(Network::Machine, words)?;
        rootfs::check_changes(&root.changes())?;
        rootfs::pack(&root.changes(), &directory.join("layer.tar"))?;
        remove(&scratch)
    })
}

fn keep(result: &Path, wanted: &Path, scratch: &Path) -> Result<()> {
    fs::rename(result, wanted).with_context(|| format!("cannot keep {}", result.display()))?;
    remove(scratch)
}

fn remove(scratch: &Path) -> Result<()> {
    fs::remove_dir_all(scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}
