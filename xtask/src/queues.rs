//! What the tests install of queues and gang schedulers of others, from their published Go modules.
//! Decides what of them is cached; must not know what is tested with it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::go::Module;
use crate::{cache, command};

/// Where gang schedulers publish the definition of their PodGroups: a module of `e2e/gangs`, and a file.
const POD_GROUPS: [(&str, &str); 2] = [
    (
        "volcano.sh/volcano",
        "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    ),
    (
        "sigs.k8s.io/scheduler-plugins",
        "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
    ),
];

/// A directory with the definitions of PodGroups, as their makers publish them.
pub(crate) fn pod_groups() -> Result<PathBuf> {
    let pins = ["go.mod", "go.sum"].map(|file| Module::directory("gangs").join(file));
    cache::keyed("pod-groups", &cache::contents(pins.into())?, |out| {
        eprintln!("downloading the definitions of PodGroups");
        for (module, file) in POD_GROUPS {
            let file = source("gangs", module)?.join(file);
            let name = file.file_name().context("a definition without a name")?;
            fs::copy(&file, out.join(name))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        Ok(())
    })
}

/// The source of a module that one of ours pins.
fn source(ours: &str, module: &str) -> Result<PathBuf> {
    let go = |words: &[&str]| {
        let mut go = Command::new("go");
        go.current_dir(Module::directory(ours)).args(words);
        command::output(&mut go)
    };
    go(&["mod", "download", module])?;
    let directory = go(&["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module])?;
    Ok(PathBuf::from(directory.trim()))
}
