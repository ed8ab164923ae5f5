//! Root file systems made of stacked directories, entered in namespaces that vanish with the
//! program that runs in them: no mount, network or process is ever left behind. Decides what of a
//! changed root file system becomes a layer; must not know what is changed in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::layers::{Inputs, scripts};
use crate::{command, packages};

/// State of the package manager, caches and mount points. Without it the layers above the base do
/// not overlap, so they can be stacked in any combination.
pub(super) const NOT_IN_LAYERS: &[&str] = &[
    "./dev/*",
    "./etc/*-",
    "./etc/.pwd.lock",
    "./etc/ld.so.cache",
    "./mnt/*",
    "./proc/*",
    "./sys/*",
    "./tmp/*",
    "./var/cache/*",
    "./var/lib/apt",
    "./var/lib/dpkg",
    "./var/log/*",
];

/// What a program in the root file system can reach.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// What this machine can reach.
    Machine,
    /// Only itself and a second, equally isolated host called `worker`.
    Own,
}

/// A root file system whose changes are collected apart from the directories it is made of.
pub(super) struct Root {
    scratch: PathBuf,
    lowers: String,
}

impl Root {
    /// Stacks `lowers`, bottom first. Whatever is needed meanwhile is put below `scratch`.
    pub(super) fn new(scratch: &Path, lowers: &[PathBuf], inputs: &Inputs) -> Result<Root> {
        for name in ["in", "out", "root", "upper", "work"] {
            let directory = scratch.join(name);
            fs::create_dir_all(&directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        inputs.copy_into(&scratch.join("in"))?;
        let topmost_first: Vec<_> = lowers
            .iter()
            .rev()
            .map(|path| path.to_string_lossy())
            .collect();
        Ok(Root {
            scratch: scratch.to_owned(),
            lowers: topmost_first.join(":"),
        })
    }

    /// Runs a program in it as root; the error of a failed one holds what it wrote to stderr.
    pub(super) fn enter(&self, network: Network, words: &[&str]) -> Result<()> {
        packages::ensure(&["iproute2", "mount", "util-linux"])?;
        let mut command = isolated();
        let network = match network {
            Network::Machine => "machine",
            Network::Own => {
                command.args(["--net", "--uts", "--ipc"]);
                "own"
            }
        };
        command
            .args(["--", "sh"])
            .arg(scripts().join("enter.sh"))
            .args([network, &self.lowers]);
        for name in ["upper", "work", "root", "in", "out"] {
            command.arg(self.scratch.join(name));
        }
        command::output(command.args(words))?;
        Ok(())
    }

    /// What programs have changed in it.
    pub(super) fn changes(&self) -> PathBuf {
        self.scratch.join("upper")
    }

    /// What programs have put into `/mnt/out`.
    pub(super) fn out(&self) -> PathBuf {
        self.scratch.join("out")
    }
}

/// `unshare`, ready for further options: the program runs in mount and PID namespaces of its own,
/// and all of it ends when this process does.
pub(super) fn isolated() -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "unshare", "--kill-child", "--fork"])
        .args(["--pid", "--mount", "--propagation", "private"]);
    command
}

/// Refuses changes that would make a layer depend on the order it is stacked in.
pub(super) fn check_changes(tree: &Path) -> Result<()> {
    for name in ["passwd", "group", "shadow"] {
        ensure!(
            !tree.join("etc").join(name).exists(),
            "a layer changes /etc/{name}: make its users and groups in debian.sh"
        );
    }
    let mut find = Command::new("find");
    find.arg(tree);
    for pattern in NOT_IN_LAYERS {
        let path = tree.join(pattern.trim_start_matches("./"));
        find.args(["(", "-path"])
            .arg(path)
            .args(["-prune", ")", "-o"]);
    }
    // This is how an overlay marks a file that was removed.
    let removed = command::output(find.args(["-type", "c", "-print"]))?;
    ensure!(
        removed.is_empty(),
        "a layer removes files of the base, which is not supported: {removed}"
    );
    Ok(())
}

/// Writes the tree as a layer, with nothing in it that only says when it was made.
pub(super) fn pack(tree: &Path, layer: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--numeric-owner", "--mtime=@0"]);
    for pattern in NOT_IN_LAYERS {
        tar.arg(format!("--exclude={pattern}"));
    }
    tar.arg("--file").arg(layer);
    command::output(tar.arg("--directory").arg(tree).arg("."))?;
    Ok(())
}
