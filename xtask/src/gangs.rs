//! Gang schedulers of others, as the tests install them: Volcano, and the scheduler of Kubernetes with the
//! coscheduling plugin. Decides what of their published manifests is installed; must not know what is
//! tested with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::archive::{self, Config};
use crate::go::Module;
use crate::queues::{Queue, source, with_images};
use crate::{cache, clients, command};

const MODULE: &str = "gangs";
const VOLCANO: &str = "volcano.sh/volcano";
const PLUGINS: &str = "sigs.k8s.io/scheduler-plugins";
/// Where they publish the definitions of their PodGroups.
const POD_GROUPS: [(&str, &str); 2] = [
    (
        VOLCANO,
        "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    ),
    (
        PLUGINS,
        "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
    ),
];
/// Documents of Volcano's installation that name one of these stay out. Its webhooks only check what its
/// users write (jobs of its API, queues, groups), and a program of their own makes their certificates.
const WITHOUT: [&str; 2] = ["volcano-admission", "volcano-monitoring"];
/// What the coscheduling chart installs, and where.
const PLUGINS_NAMESPACE: &str = "scheduler-plugins";

/// A program of ours or of others, and the image that a manifest starts it from.
struct Program {
    /// As it was built.
    built: &'static str,
    /// Where the manifest expects it.
    path: &'static str,
    /// Part of the published reference.
    published: &'static str,
    image: &'static str,
}

const OF_VOLCANO: [Program; 2] = [
    Program {
        built: "scheduler",
        path: "vc-scheduler",
        published: "/vc-scheduler:",
        image: "muster.test/volcano-scheduler:1",
    },
    Program {
        built: "controller-manager",
        path: "vc-controller-manager",
        published: "/vc-controller-manager:",
        image: "muster.test/volcano-controller-manager:1",
    },
];
const OF_PLUGINS: [Program; 2] = [
    Program {
        built: "coscheduling",
        path: "bin/kube-scheduler",
        published: "/kube-scheduler:",
        image: "muster.test/coscheduling:1",
    },
    Program {
        built: "coscheduling",
        path: "controller",
        published: "/controller:",
        image: "muster.test/coscheduling-controller:1",
    },
];

/// Both of them, by the variable that names each manifest to the tests. The first build takes minutes.
pub(crate) fn schedulers() -> Result<[(&'static str, Queue); 2]> {
    Ok([
        (
            "MUSTER_E2E_VOLCANO",
            scheduler("volcano", &OF_VOLCANO, volcano)?,
        ),
        (
            "MUSTER_E2E_COSCHEDULING",
            scheduler("coscheduling", &OF_PLUGINS, coscheduling)?,
        ),
    ])
}

/// A directory with the definitions of PodGroups, as their makers publish them.
pub(crate) fn pod_groups() -> Result<PathBuf> {
    let pins = ["go.mod", "go.sum"].map(|file| Module::directory(MODULE).join(file));
    cache::keyed("pod-groups", &cache::contents(pins.into())?, |out| {
        eprintln!("downloading the definitions of PodGroups");
        for (module, file) in POD_GROUPS {
            let file = source(MODULE, module)?.join(file);
            let name = file.file_name().context("a definition without a name")?;
            fs::copy(&file, out.join(name))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        Ok(())
    })
}

fn scheduler(
    name: &str,
    programs: &[Program],
    manifest: impl FnOnce() -> Result<String>,
) -> Result<Queue> {
    let built = Module {
        name: MODULE,
        programs: &[
            "volcano.sh/volcano/cmd/scheduler",
            "volcano.sh/volcano/cmd/controller-manager",
            "./coscheduling",
        ],
        ldflags: String::new(),
        at_once: None,
    };
    let built = built.built()?;
    // The path names the build, so it stands for the content. The number is this file's version.
    let inputs = ["1", &built.to_string_lossy()];
    let directory = cache::keyed(&format!("image-{name}"), &inputs, |out| {
        let image = |published: &str| {
            let program = programs
                .iter()
                .find(|one| published.contains(one.published));
            program.map(|program| program.image)
        };
        let manifest = with_images(&manifest()?, image);
        fs::write(out.join("install.yaml"), manifest).context("cannot write the manifest")?;
        programs
            .iter()
            .try_for_each(|program| write_image(out, &built, program))
    })?;
    let archive = |program: &Program| archive_of(&directory, program);
    Ok(Queue {
        archives: programs.iter().map(archive).collect(),
        manifest: directory.join("install.yaml"),
    })
}

fn write_image(out: &Path, built: &Path, program: &Program) -> Result<()> {
    let directory = archive_of(out, program);
    let directory = directory
        .parent()
        .context("an archive without a directory")?;
    fs::create_dir_all(directory)?;
    let file = built.join(program.built);
    // As a user that is not root.
    let config = Config {
        user: "65532:65532".to_owned(),
        ..Config::default()
    };
    let files = [(program.path, file.as_path(), 0o755)];
    archive::write_program(directory, program.image, &files, config)
}

fn archive_of(directory: &Path, program: &Program) -> PathBuf {
    let name = program.path.replace('/', "-");
    directory.join(name).join("image.tar")
}

/// Its installation for developers, which is its chart with the default values.
fn volcano() -> Result<String> {
    let file = source(MODULE, VOLCANO)?.join("installer/volcano-development.yaml");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let documents = text.split("\n---");
    let kept = documents.filter(|document| !WITHOUT.iter().any(|name| document.contains(name)));
    Ok(kept.collect::<Vec<_>>().join("\n---"))
}

/// Its definitions, and its chart with no plugin but this one.
fn coscheduling() -> Result<String> {
    let source = source(MODULE, PLUGINS)?;
    let mut documents = vec![format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {PLUGINS_NAMESPACE}\n"
    )];
    let definitions = source.join("config/crd/bases");
    let mut files = cache::files_below(&definitions)?;
    files.sort();
    ensure!(!files.is_empty(), "{} is empty", definitions.display());
    for file in files {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        documents.push(text);
    }
    let mut helm = Command::new(clients::helm()?);
    helm.args(["template", "scheduler-plugins"]);
    helm.arg(source.join("manifests/install/charts/as-a-second-scheduler"));
    helm.args(["--namespace", PLUGINS_NAMESPACE]);
    helm.args(["--set", "plugins.enabled={Coscheduling}"]);
    documents.push(command::output(&mut helm)?);
    Ok(documents.join("\n---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_published_image_stands_for_one_program() {
        for (published, expected) in [
            (
                "registry.example/volcanosh/vc-scheduler:v1.14.0",
                &OF_VOLCANO[0],
            ),
            (
                "registry.example/volcanosh/vc-controller-manager:v1.14.0",
                &OF_VOLCANO[1],
            ),
            (
                "registry.example/scheduler-plugins/kube-scheduler:v0.34.7",
                &OF_PLUGINS[0],
            ),
            (
                "registry.example/scheduler-plugins/controller:v0.34.7",
                &OF_PLUGINS[1],
            ),
        ] {
            let of_both = OF_VOLCANO.iter().chain(&OF_PLUGINS);
            let found: Vec<_> = of_both
                .filter(|program| published.contains(program.published))
                .map(|program| program.image)
                .collect();
            assert_eq!(found, [expected.image], "{published}");
        }
    }
}
