//! Queues of others, as the tests install them: a program built from its published Go module, in an image
//! of its own, and the manifests of the same version. Decides what of them is cached; must not know what
//! is tested with them.

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

/// What a cluster needs to run one of them.
pub(crate) struct Queue {
    /// Its images, for every node.
    pub(crate) archives: Vec<PathBuf>,
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
        archives: vec![directory.join("image.tar")],
        manifest: directory.join("kueue.yaml"),
    })
}

/// The source of a module that one of ours pins.
pub(crate) fn source(ours: &str, module: &str) -> Result<PathBuf> {
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
    Ok(with_images(&text, |reference| {
        reference.contains('/').then_some(image)
    }))
}

/// A manifest with our images in the place of published ones. No node fetches what it has.
pub(crate) fn with_images<'a>(manifest: &str, image: impl Fn(&str) -> Option<&'a str>) -> String {
    let value = |line: &'_ str, key: &str| {
        let (before, value) = line.split_once(key)?;
        before
            .trim_matches([' ', '-'])
            .is_empty()
            .then(|| (before.to_owned(), value.to_owned()))
    };
    let line = |line: &str| {
        if let Some((before, published)) = value(line, "image: ")
            && let Some(ours) = image(&published)
        {
            return format!("{before}image: {ours}\n");
        }
        match value(line, "imagePullPolicy: ") {
            Some((before, _)) => format!("{before}imagePullPolicy: Never\n"),
            None => format!("{line}\n"),
        }
    };
    manifest.lines().map(line).collect()
}
