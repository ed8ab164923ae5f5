//! Every command of README.md is run, as it stands there: those for this machine in earnest, those
//! for a cluster with stand-ins for docker and kubectl that look at what they are given.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::{Ended, World, ended};

/// Whatever is asked of it must be about a file of this repository.
const DOCKER: &str = r#"#!/bin/sh
echo "docker $*" >>"$SAID"
case "$1 $2" in
"build -f") test -f "$3" ;;
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
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, below) = text.split_once(heading).unwrap();
    let (_, block) = below.split_once("```\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let command = |line: &str| line.split("    ").next().unwrap().to_owned() + "\n";
    block.lines().map(command).collect()
}

fn shell(world: &World, script: &str, path: &str) -> Ended {
    let mut command = Command::new("bash");
    command.args(["-ec", script]);
    world.surround(&mut command);
    command
        .env("PATH", path)
        .env("SAID", world.directory.join("said"))
        .current_dir(root());
    ended(command)
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
    let bin = world.binary();
    let path = format!(
        "{}:{}",
        bin.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let run = shell(&world, &commands("## On this machine\n"), &path);
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
        let path = world.file(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", world.directory.display());
    let run = shell(&world, &commands("## On your cluster\n"), &path);
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
