//! Queues and gang schedulers of others, as the tests install them: each a program built from its
//! published Go module, in an image of its own, and the manifests of the same version. Decides what of
//! them is cached; must not know what is tested with them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::archive::{self, Config};
use crate::go::Module;
use crate::{cache, cluster, command};

const KUEUE_MODULE: &str = "sigs.k8s.io/kueue";
/// Under a domain that cannot exist, so that no container runtime ever fetches it elsewhere.
const KUEUE_IMAGE: &str = "muster.test/kueue:1";

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

/// What a cluster needs to run one of them.
pub(crate) struct Queue {
    /// Its image, for every node.
    pub(crate) archive: PathBuf,
    /// Everything that `kubectl apply` installs.
    pub(crate) manifest: PathBuf,
}

/// Kueue. Its first build takes minutes, since it compiles most of a Kubernetes scheduler.
pub(crate) fn kueue() -> Result<Queue> {
    let module = Module {
        name: "queues",
        programs: &["sigs.k8s.io/kueue/cmd/kueue"],
        ldflags: String::new(),
        at_once: None,
    };
    let program = module.built()?.join("kueue");
    // The path names the build, so it stands for the content. The number is this function's version.
    let inputs = ["1", KUEUE_IMAGE, &program.to_string_lossy()];
    let directory = cache::keyed("image-kueue", &inputs, |out| {
        let manifest = manifest(KUEUE_MODULE, KUEUE_IMAGE)?;
        fs::write(out.join("kueue.yaml"), manifest).context("cannot write the manifest")?;
        // As the manifest calls it, and as a user that is not root.
        let files = [("manager", program.as_path(), 0o755)];
        let config = Config {
            user: "65532:65532".to_owned(),
            ..Config::default()
        };
        archive::write_program(out, KUEUE_IMAGE, &files, config)
    })?;
    Ok(Queue {
        archive: directory.join("image.tar"),
        manifest: directory.join("kueue.yaml"),
    })
}

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

/// The default installation of a module, with our image in the place of the published one.
fn manifest(module: &str, image: &str) -> Result<String> {
    let default = source("queues", module)?.join("config/default");
    let mut kubectl = Command::new(cluster::kubectl_directory()?.join("kubectl"));
    kubectl.arg("kustomize").arg(default);
    let text = command::output(&mut kubectl)?;
    let line = |line: &str| match line.split_once("image: ") {
        Some((before, reference)) if before.trim().is_empty() && reference.contains('/') => {
            format!("{before}image: {image}\n")
        }
        _ => match line.split_once("imagePullPolicy: ") {
            Some((before, _)) if before.trim().is_empty() => {
                format!("{before}imagePullPolicy: Never\n")
            }
            _ => format!("{line}\n"),
        },
    };
    Ok(text.lines().map(line).collect())
}
