//! Every example that needs no special image runs on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::World;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Examples that need a program which only their image has, and which program that is.
const OTHER_MPI: [&str; 2] = ["pi-intel.yaml", "pi-mpich.yaml"];

/// The program of the images, built with the MPI of this machine.
fn pi(world: &World) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/images/pi.c");
    let program = world.directory.join("pi");
    let built = Command::new("mpicc")
        .arg("-O1")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status()
        .expect("mpicc must be installed: apt install libopenmpi-dev");
    assert!(built.success());
    format!("{}:/home/mpiuser/pi:ro", program.display())
}

#[test]
fn pi_without_a_compiler() {
    let world = World::new("example-pi");
    let file = examples().join("local/pi.yaml");
    let run = world.run(&["run", file.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "pi is approximately 3.1415926536: 4 ranks on 2 hosts\n"
    );
}

#[test]
fn the_failure_box() {
    let world = World::new("example-fails");
    let file = examples().join("local/fails.yaml");
    let run = world.run(&["run", file.to_str().unwrap()]);
    assert_eq!(run.code, 66, "{}", run.stderr);
    assert!(
        run.stderr.contains("cannot open /data/input.h5"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains(
            "error[CommandFailed]: fails failed: rank 3 on worker fails-worker-1 exited with code 66;"
        ),
        "{}",
        run.stderr
    );
    assert!(world.processes().is_empty());
}

#[test]
fn examples_written_for_images_run_with_the_program_mounted() {
    let world = World::new("examples");
    let mount = pi(&world);
    let mut ran = 0;
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() || OTHER_MPI.contains(&name.as_str()) {
            continue;
        }
        let run = world.run(&["run", path.to_str().unwrap(), "--mount", &mount]);
        if name == "suspended.yaml" {
            assert_eq!(run.code, 120, "{name}: {}", run.stderr);
            assert!(run.stderr.contains("is suspended"), "{}", run.stderr);
            continue;
        }
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        // Few points: the more ranks, the more of them.
        let about = "pi is approximately 3.1";
        assert!(run.stdout.contains(about), "{name}: {}", run.stdout);
        ran += 1;
    }
    assert!(ran >= 5, "{ran} examples ran");
}
