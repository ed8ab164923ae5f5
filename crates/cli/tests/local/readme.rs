//! Every command of README.md is run, as it stands there: those for this machine in earnest, those
//! for a cluster with stand-ins for docker and kubectl that look at what they are given.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::{Ended, World, ended};

/// Whatever is asked of it must be about a file of this repository.
pub(crate) const DOCKER: &str = r#"#!/bin/sh
echo "docker $*" >>"$SAID"
case "$1 $2" in
"build -f") test -f "$3" ;;
"build -t") test -f "$4/Dockerfile" ;;
"push "*) ;;
*) exit 1 ;;
esac
"#;
const KUBECTL: &str = r#"#!/bin/sh
echo "kubectl $*" >>"$SAID"
case "$*" in
"apply -f -") grep -E 'image[:=] ?[^ ]*muster-' >>"$SAID" ;;
"apply -f your-mpijob.yaml" | "get mpijobs --watch") ;;
*) exit 1 ;;
esac
"#;

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    own.canonicalize().unwrap()
}

/// The first block of commands below a heading, without what explains them.
fn commands(heading: &str) -> String {
    blocks("README.md", heading)[0].clone()
}

/// The blocks of commands below a heading of a page, up to the next one of its kind.
pub(crate) fn blocks(page: &str, heading: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let (_, below) = text.split_once(heading).unwrap();
    let below = below.split("\n## ").next().unwrap();
    let command = |line: &str| line.split("    ").next().unwrap().to_owned() + "\n";
    // A block that names its language is a piece of a file.
    let blocks = below.split("\n```").skip(1).step_by(2);
    let commands = blocks.filter_map(|block| block.strip_prefix('\n'));
    commands
        .map(|block| block.lines().map(command).collect())
        .collect()
}

/// A directory that has what commands in the root of the repository refer to, where they may write files.
fn desk(world: &World) -> PathBuf {
    let desk = world.directory.join("desk");
    fs::create_dir_all(&desk).unwrap();
    for folder in ["deploy", "examples"] {
        std::os::unix::fs::symlink(root().join(folder), desk.join(folder)).unwrap();
    }
    desk
}

pub(crate) fn shell(world: &World, script: &str, path: &str) -> Ended {
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    world.surround(&mut command);
    // Where pip finds packages is a matter of the machine.
    let pip = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PIP_"));
    command
        .envs(pip)
        .env("PATH", path)
        .env("SAID", world.directory.join("said"))
        .current_dir(desk(world));
    ended(command)
}

/// A stand-in for a program, which is found before all others.
pub(crate) fn stand_in(world: &World, name: &str, text: &str) {
    let path = world.file(name, text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Where programs are, muster first.
pub(crate) fn path_with_muster(world: &World) -> String {
    let bin = world.binary();
    format!(
        "{}:{}",
        bin.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    )
}

#[test]
fn the_first_two_commands_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let commands = commands("# muster\n");
    // What they do is tested elsewhere: the demonstration by `tests/demo.rs`, the tests by running.
    assert_eq!(commands, "make demo\nmake test\n");
    for target in ["demo", "test", "demo-cluster"] {
        assert!(makefile.contains(&format!("\n{target}: ")), "{target}");
    }
}

#[test]
fn the_commands_for_this_machine() {
    let world = World::new("readme");
    let script = format!("set -e\n{}", commands("## On this machine\n"));
    let run = shell(&world, &script, &path_with_muster(&world));
    assert_eq!(run.code, 0, "{run:?}");
    let pi = "pi is approximately 3.1415926536: 4 ranks on 2 hosts";
    assert!(run.stdout.contains(pi), "{run:?}");
    assert_eq!(run.stdout.matches("pi-worker-1\n").count(), 4, "{run:?}");
    assert!(
        run.stdout.contains("mpijob.kubeflow.org/pi created"),
        "{run:?}"
    );
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn the_commands_for_a_cluster() {
    let world = World::new("readme-cluster");
    for (name, text) in [("docker", DOCKER), ("kubectl", KUBECTL)] {
        stand_in(&world, name, text);
    }
    let path = format!("{}:/usr/bin:/bin", world.directory.display());
    let script = format!("set -e\n{}", commands("## On your cluster\n"));
    let run = shell(&world, &script, &path);
    assert_eq!(run.code, 0, "{run:?}");
    let said = fs::read_to_string(world.directory.join("said")).unwrap();
    assert_eq!(said.matches("docker build").count(), 2, "{said}");
    assert_eq!(said.matches("docker push").count(), 2, "{said}");
    assert_eq!(said.matches("kubectl").count(), 3, "{said}");
    // What is installed runs what was pushed.
    let images: Vec<&str> = said.lines().filter(|line| line.contains("image")).collect();
    assert!(images.len() >= 2, "{said}");
    for line in images {
        assert!(line.contains("registry.example/you/muster-"), "{line}");
    }
}
