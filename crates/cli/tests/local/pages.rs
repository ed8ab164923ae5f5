//! Every command of the tutorial and of the pages about failed jobs, about recovery and about moving over is run, as it
//! stands there: on this machine in earnest, for a cluster with stand-ins that look at what they are given.

use std::fs;

use crate::readme::{DOCKER, blocks, path_with_muster, shell, stand_in};
use crate::world::World;

const TUTORIAL: &str = "docs/tutorial.md";
const DEBUG: &str = "docs/how-to/debug-a-failed-job.md";
const RECOVERY: &str = "docs/how-to/recovery.md";
const SEE: &str = "docs/how-to/see-what-happened.md";
const SLOW_START: &str = "docs/how-to/slow-start.md";
const MOVE: &str = "docs/how-to/move-from-mpi-operator.md";

/// Takes what the pages ask of a cluster, and shows which images it was given. What needs none is done in earnest.
const KUBECTL: &str = r#"#!/bin/sh
echo "kubectl $*" >>"$SAID"
case "$*" in
"kustomize deploy/overlays/"*) PATH="${PATH#*:}" exec kubectl "$@" ;;
"apply -f -" | "apply --server-side --force-conflicts -f -") grep -E 'image[:=] ?[^ ]*muster-' >>"$SAID" ;;
"rollout status deployment/"* | "get mpijobs --all-namespaces" | "get pods --all-namespaces -l "* | "delete "*) ;;
*) exit 1 ;;
esac
"#;

/// Knows what it is asked for.
const KUBECTL_GET: &str = r#"#!/bin/sh
[ "$1 $2 $3" = "get mpijob train" ] && case "$5" in *.status.muster.milestones*.status.muster.slowest*) exit 0 ;; esac
exit 1
"#;

/// What was asked of the stand-ins.
fn said(world: &World) -> String {
    let said = fs::read_to_string(world.directory.join("said")).unwrap();
    let images: Vec<&str> = said.lines().filter(|line| line.contains("image")).collect();
    assert!(images.len() >= 2, "{said}");
    for line in images {
        assert!(line.contains("registry.example/you/muster-"), "{line}");
    }
    said
}

#[test]
fn the_tutorial_on_this_machine() {
    let world = World::new("tutorial");
    let path = path_with_muster(&world);
    let pi = "pi is approximately 3.1415926536: 4 ranks on 2 hosts";
    let run = shell(
        &world,
        &blocks(TUTORIAL, "## A job on this machine\n")[0],
        &path,
    );
    assert!(run.code == 0 && run.stdout.contains(pi), "{run:?}");
}

#[test]
fn the_job_of_the_tutorial_that_fails() {
    let world = World::new("tutorial-fails");
    let path = path_with_muster(&world);
    let run = shell(&world, &blocks(TUTORIAL, "## A job that fails\n")[0], &path);
    assert!(run.code == 66, "{run:?}");
    assert!(
        run.stderr.contains("rank 3 on worker fails-worker-1"),
        "{run:?}"
    );
}

#[test]
fn the_tutorial_with_kubectl() {
    let world = World::new("tutorial-kubectl");
    let script = blocks(TUTORIAL, "## The same with kubectl\n").concat();
    let run = shell(
        &world,
        &format!("set -e\n{script}"),
        &path_with_muster(&world),
    );
    assert!(run.code == 0 && run.stdout.contains("Succeeded"), "{run:?}");
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn the_tutorial_on_a_cluster() {
    let world = World::new("tutorial-cluster");
    let cluster = blocks(TUTORIAL, "## On a cluster\n");
    assert_eq!(cluster.len(), 2);
    for (name, text) in [("docker", DOCKER), ("kubectl", KUBECTL)] {
        stand_in(&world, name, text);
    }
    let path = format!("{}:/usr/bin:/bin", world.directory.display());
    let run = shell(&world, &format!("set -e\n{}", cluster[0]), &path);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(said(&world).matches("docker push").count(), 2);

    // A local cluster takes it, too.
    let world = World::new("tutorial-submit");
    let script = format!("set -e\neval \"$(muster up)\"\n{}muster down\n", cluster[1]);
    let run = shell(&world, &script, &path_with_muster(&world));
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("pi is approximately"), "{run:?}");
}

#[test]
fn from_a_failed_job_to_its_cause() {
    let world = World::new("debug");
    let path = path_with_muster(&world);
    let run = shell(&world, &blocks(DEBUG, "# Debug a failed job\n")[0], &path);
    assert_eq!(run.code, 0, "{run:?}");
    for words in [
        "CommandFailed\n",
        "rank 3 on worker fails-worker-1",
        "/data/input.h5",
        "TYPE     REASON",
    ] {
        assert!(run.stdout.contains(words), "{words} is not in {run:?}");
    }
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn from_a_slow_start_to_the_worker_that_was_late() {
    let world = World::new("slow-start");
    let path = path_with_muster(&world);
    let script = &blocks(SLOW_START, "# Why did the start take so long\n")[0];
    let run = shell(&world, &format!("set -e\n{script}"), &path);
    assert_eq!(run.code, 0, "{run:?}");
    for words in [
        "pi-launcher",
        "workersReady",
        "All workers were Ready.",
        "\"ranksStarted\": ",
    ] {
        assert!(run.stdout.contains(words), "{words} is not in {run:?}");
    }
    let world = World::new("slow-start-scripts");
    stand_in(&world, "kubectl", KUBECTL_GET);
    let path = format!("{}:/usr/bin:/bin", world.directory.display());
    let run = shell(&world, &blocks(SLOW_START, "## In scripts\n")[0], &path);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_program_that_starts_again() {
    let world = World::new("recovery-page");
    let path = path_with_muster(&world);
    let blocks = blocks(RECOVERY, "Try it on this machine.");
    let run = shell(&world, &format!("set -e\n{}", blocks[0]), &path);
    assert_eq!(run.code, 0, "{run:?}");
    let verdict = "attempt 2 succeeded; attempt 1 ended with RankKilled";
    assert!(run.stdout.contains(verdict), "{run:?}");
    let last = "rank 3 on recovers-worker-1: attempt 2, because of RankKilled\n";
    // In the run's own output, and in the log of the second attempt.
    assert_eq!(run.stdout.matches(last).count(), 2, "{run:?}");
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn a_program_with_checkpoints() {
    let world = World::new("checkpoints-page");
    let path = path_with_muster(&world);
    let blocks = blocks(RECOVERY, "## A program with checkpoints\n");
    let run = shell(&world, &format!("set -e\n{}", blocks[0]), &path);
    assert_eq!(run.code, 0, "{run:?}");
    // The last of all atoms, which is not in the output of LAMMPS.
    assert!(run.stdout.contains("\n4000 "), "{run:?}");
}

#[test]
fn what_happened_to_a_job_is_in_a_file() {
    let world = World::new("see-page");
    let path = path_with_muster(&world);
    let blocks = blocks(SEE, "## A page about one job\n");
    let run = shell(&world, &format!("set -e\n{}", blocks[0]), &path);
    assert_eq!(run.code, 0, "{run:?}");
    let file = |name: &str| fs::read_to_string(world.directory.join("desk").join(name)).unwrap();
    for name in ["fails.html", "last.html", "last.json"] {
        assert!(
            file(name).contains("rank 3 on worker fails-worker-1"),
            "{name}"
        );
    }
}

#[test]
fn moving_over_and_back() {
    let world = World::new("move");
    stand_in(&world, "kubectl", KUBECTL);
    let inherited = std::env::var("PATH").unwrap();
    let path = format!("{}:{inherited}", world.directory.display());
    let there = blocks(MOVE, "## Replace the operator\n");
    let back = blocks(MOVE, "## Back\n");
    let script = format!("set -e\n{}{}", there.concat(), back.concat());
    let run = shell(&world, &script, &path);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(said(&world).matches("kubectl delete").count(), 4);
}
