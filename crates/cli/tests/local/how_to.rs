//! The pages of `docs/how-to` about images, GPUs and moving from the training operator: their commands for this machine
//! run as they are written. What they do on a cluster is tested on a cluster. No page has commands that nobody runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::readme::{blocks, path_with_muster, shell, stand_in};
use crate::world::World;

const NO_SSHD: &str = "docs/how-to/images-without-sshd.md";
const GPUS: &str = "docs/how-to/gpus.md";
const TRAINING: &str = "docs/how-to/move-from-training-operator.md";

/// The part of the training operator's Deployment that the page is about.
const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: training-operator, namespace: kubeflow}
spec:
  selector: {matchLabels: {control-plane: kubeflow-training-operator}}
  template:
    metadata: {labels: {control-plane: kubeflow-training-operator}}
    spec:
      containers:
      - {name: training-operator, image: training-operator, command: [/manager]}
";

/// The first two words say what is asked; a patch is made in earnest, on a file.
const KUBECTL: &str = r#"#!/bin/sh
echo "kubectl $*" >>"$SAID"
case "$1 $2" in
"patch deployment")
    shift 5
    PATH="${PATH#*:}" exec kubectl patch --local --filename deployment.yaml "$@" -o yaml ;;
"apply --server-side") grep -E 'image[:=] ?[^ ]*muster-' >>"$SAID" ;;
"get mpijobs.v1.kubeflow.org" | "rollout status" | "get validatingwebhookconfigurations,"*) ;;
*) exit 1 ;;
esac
"#;

#[test]
fn a_job_without_sshd_has_no_ssh_keys() {
    let world = World::new("page-no-ssh");
    let script = blocks(NO_SSHD, "## Before you submit\n").concat();
    let run = shell(
        &world,
        &format!("set -e\n{script}"),
        &path_with_muster(&world),
    );
    assert_eq!(run.code, 0, "{run:?}");
    let secrets = run
        .stdout
        .lines()
        .filter(|line| line.starts_with("secret/"));
    let secrets: Vec<_> = secrets.collect();
    assert!(
        secrets.len() == 1 && secrets[0].starts_with("secret/pi-without-ssh-agent-"),
        "{run:?}"
    );
}

#[test]
fn slots_are_counted_from_gpus() {
    let world = World::new("page-gpus");
    let script = blocks(GPUS, "## NCCL tests\n").concat();
    let run = shell(
        &world,
        &format!("set -e\n{script}"),
        &path_with_muster(&world),
    );
    assert_eq!(run.code, 0, "{run:?}");
    for index in 0..2 {
        let host = format!("nccl-tests-worker-{index}.nccl-tests.default.svc slots=8\n");
        assert!(run.stdout.contains(&host), "{run:?}");
    }
    // Two workers ask for GPUs, and the launcher does not see any.
    assert_eq!(
        run.stdout.matches("nvidia.com/gpu: 8").count(),
        2,
        "{run:?}"
    );
    assert_eq!(
        run.stdout.matches("name: NVIDIA_VISIBLE_DEVICES").count(),
        1,
        "{run:?}"
    );
}

#[test]
fn the_training_operator_without_mpijobs() {
    let world = World::new("page-training");
    stand_in(&world, "kubectl", KUBECTL);
    fs::create_dir_all(world.directory.join("desk")).unwrap();
    world.file("desk/deployment.yaml", DEPLOYMENT);
    let inherited = std::env::var("PATH").unwrap();
    let path = format!("{}:{inherited}", world.directory.display());
    let script = blocks(TRAINING, "## Replace the operator for MPIJobs\n").concat();
    let run = shell(&world, &format!("set -e\n{script}"), &path);
    assert_eq!(run.code, 0, "{run:?}");
    for kind in ["tfjob", "pytorchjob", "xgboostjob", "paddlejob", "jaxjob"] {
        assert!(
            run.stdout.contains(&format!("- --enable-scheme={kind}\n")),
            "{run:?}"
        );
    }
    assert!(!run.stdout.contains("mpijob"), "{run:?}");
    let said = fs::read_to_string(world.directory.join("said")).unwrap();
    let images = said
        .lines()
        .filter(|line| line.contains("registry.example/you/muster-"));
    assert!(images.count() >= 2, "{said}");
}

/// Pages with commands, how many blocks of them, and the tests that run these.
const TRIED: [(&str, usize, &[&str]); 15] = [
    (
        "how-to/debug-a-failed-job",
        2,
        &["crates/cli/tests/local/pages.rs", ON_A_CLUSTER],
    ),
    ("how-to/gpus", 2, &[HERE, ON_A_CLUSTER]),
    ("how-to/images-without-sshd", 2, &[HERE, ON_A_CLUSTER]),
    (
        "how-to/install-with-helm",
        5,
        &["e2e/tests/cluster/helm.rs", ON_A_CLUSTER],
    ),
    (
        "how-to/move-from-mpi-operator",
        3,
        &["crates/cli/tests/local/pages.rs"],
    ),
    ("how-to/move-from-training-operator", 4, &[HERE]),
    ("how-to/private-registries", 2, &[ON_A_CLUSTER]),
    (
        "how-to/queues-and-gangs",
        8,
        &["e2e/tests/queues/how_to.rs"],
    ),
    (
        "how-to/recipes",
        6,
        &["crates/cli/tests/local/recipes.rs", ON_A_CLUSTER],
    ),
    ("how-to/recovery", 2, &["crates/cli/tests/local/pages.rs"]),
    (
        "how-to/see-what-happened",
        1,
        &["crates/cli/tests/local/pages.rs"],
    ),
    ("how-to/shared-memory", 1, &[ON_A_CLUSTER]),
    ("how-to/slow-start", 2, &["crates/cli/tests/local/pages.rs"]),
    (
        "reference/metrics",
        2,
        &["e2e/tests/api/prometheus.rs", ON_A_CLUSTER],
    ),
    ("tutorial", 5, &["crates/cli/tests/local/pages.rs"]),
];
const HERE: &str = "crates/cli/tests/local/how_to.rs";
const ON_A_CLUSTER: &str = "e2e/tests/cluster/how_to.rs";
/// Benchmarks, and bad weather and a fuzzer for as long as somebody likes: a quarter of an hour and more.
const UNTRIED: [&str; 3] = ["fuzzing", "performance", "simulation"];

fn pages_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn no_page_has_commands_that_no_test_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = Vec::new();
    pages_below(&root.join("docs"), &mut pages);
    let mut found = BTreeMap::new();
    for page in pages {
        let name = page
            .strip_prefix(root.join("docs"))
            .unwrap()
            .with_extension("");
        let text = fs::read_to_string(&page).unwrap();
        let fenced = text.split("\n```").skip(1).step_by(2);
        let commands = fenced.filter(|block| block.starts_with('\n')).count();
        let name = name.to_str().unwrap();
        if commands > 0 && !UNTRIED.contains(&name) {
            found.insert(name.to_owned(), commands);
        }
    }
    let tried = TRIED.map(|(page, blocks, _)| (page.to_owned(), blocks));
    assert_eq!(
        found,
        tried.into(),
        "run new commands in a test, and count them here"
    );
    for (page, _, tests) in TRIED {
        let name = page.rsplit('/').next().unwrap();
        for test in tests {
            let text = fs::read_to_string(root.join(test)).unwrap();
            assert!(text.contains(name), "{test} does not name {page}");
        }
    }
}
