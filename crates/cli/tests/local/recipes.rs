//! The recipes of `docs/how-to/recipes.md`: programs that people look for, run by the page's own commands. Decides
//! by what each program prints that it did its work, on all ranks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::readme::{DOCKER, blocks, path_with_muster, shell, stand_in};
use crate::world::{Ended, World};

const PAGE: &str = "docs/how-to/recipes.md";

fn ran(world: &World, heading: &str) -> Ended {
    let script = blocks(PAGE, heading).concat();
    let run = shell(
        world,
        &format!("set -e\n{script}"),
        &path_with_muster(world),
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert!(world.processes().is_empty(), "{:?}", world.processes());
    run
}

#[test]
fn lammps_keeps_the_energy() {
    let world = World::new("recipe-lammps");
    let run = ran(&world, "## LAMMPS\n");
    let steps = run
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("Step Temp TotEng"));
    let energies: Vec<f64> = steps
        .skip(1)
        .take(3)
        .map(|line| line.split_whitespace().nth(2).unwrap().parse().unwrap())
        .collect();
    assert_eq!(energies.len(), 3, "{run:?}");
    // In the units of the simulation, where the potential and the temperature are of the order of 1.
    assert!(
        (energies[0] - energies[2]).abs() < 1e-3 && energies[0] < -1.0,
        "{energies:?}"
    );
    let loops = " on 4 procs for 100 steps with 4000 atoms\n";
    assert!(run.stdout.contains(loops), "{run:?}");
}

#[test]
fn hpc_challenge_checks_its_own_results() {
    let world = World::new("recipe-hpcc");
    let run = ran(&world, "## HPC Challenge\n");
    let value = |name: &str| -> f64 {
        let lines = run.stdout.lines().filter_map(|line| line.split_once('='));
        let mut values = lines
            .filter(|(left, _)| *left == name)
            .map(|(_, right)| right);
        values
            .next()
            .unwrap_or_else(|| panic!("no {name} in {run:?}"))
            .parse()
            .unwrap()
    };
    assert_eq!(
        (value("Success"), value("CommWorldProcs")),
        (1.0, 2.0),
        "{run:?}"
    );
    // Residuals of HPL and PTRANS are theirs, and below the threshold of the input.
    assert!(
        value("PTRANS_residual") < 16.0 && value("MPIFFT_maxErr") < 1e-12,
        "{run:?}"
    );
    for rate in [
        "HPL_Tflops",
        "StarSTREAM_Triad",
        "MPIFFT_Gflops",
        "PTRANS_GBs",
    ] {
        assert!(value(rate) > 0.0, "{rate}: {run:?}");
    }
}

#[test]
fn mpi4py_finds_the_mpi_beside_it() {
    let world = World::new("recipe-mpi4py");
    let run = ran(&world, "## mpi4py\n");
    let said = "pi is approximately 3.14159265: 4 ranks on 2 hosts, ";
    assert!(run.stdout.contains(said), "{run:?}");
}

#[test]
fn messages_of_every_size_come_back_unchanged() {
    let world = World::new("recipe-bandwidth");
    let run = ran(&world, "## Latency and bandwidth\n");
    assert_table(&run.stdout);
    let hosts = "# from bandwidth-worker-0 to bandwidth-worker-1\n";
    assert!(run.stdout.contains(hosts), "{run:?}");
}

/// Twelve sizes with a time and a rate each, and nothing damaged.
fn assert_table(text: &str) {
    let rows: Vec<Vec<f64>> = text
        .lines()
        .map(|line| {
            line.split_whitespace()
                .map_while(|cell| cell.parse().ok())
                .collect()
        })
        .filter(|row: &Vec<f64>| row.len() == 3)
        .collect();
    let sizes: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    let expected: Vec<f64> = (0..12).map(|power| 4_f64.powi(power)).collect();
    assert_eq!(sizes, expected, "{text}");
    for row in &rows {
        // Both columns are rounded to two digits.
        let rate = row[0] / row[1];
        assert!(
            row[1] > 0.0 && (row[2] - rate).abs() <= 0.01 + rate * 0.01,
            "{row:?}"
        );
    }
    assert!(
        text.contains("\n# 0 messages came back damaged\n"),
        "{text}"
    );
}

/// No test has Docker. What the image installs is at least what the runs above used.
#[test]
fn the_image_is_built_of_what_runs_here() {
    let world = World::new("recipe-image");
    for (name, text) in [("docker", DOCKER), ("kubectl", KUBECTL)] {
        stand_in(&world, name, text);
    }
    let path = format!("{}:/usr/bin:/bin", world.directory.display());
    let script = blocks(PAGE, "## On a cluster\n").concat();
    let run = shell(&world, &format!("set -e\n{script}"), &path);
    assert_eq!(run.code, 0, "{run:?}");
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/recipes");
    let file = fs::read_to_string(recipes.join("Dockerfile")).unwrap();
    let mut packages = BTreeSet::new();
    for install in file.split("--no-install-recommends ").skip(1) {
        let words = install
            .lines()
            .next()
            .unwrap()
            .split(" && ")
            .next()
            .unwrap();
        packages.extend(words.split_whitespace());
    }
    assert!(packages.len() >= 8, "{packages:?}");
    for package in &packages {
        let query = Command::new("dpkg-query")
            .args(["-W", "-f=${Status}", package])
            .output();
        let status = String::from_utf8(query.unwrap().stdout).unwrap();
        assert!(
            status.contains("ok installed"),
            "{package} is not installed: {status}"
        );
    }
    let page = fs::read_to_string(recipes.join("../..").join(PAGE)).unwrap();
    for words in ["mpicc -O2 -o ", "mpi4py==4.1.2"] {
        assert!(page.contains(words) && file.contains(words), "{words}");
    }
}

const KUBECTL: &str = r#"#!/bin/sh
case "$1 $2" in
"apply -f") grep -q 'image: registry.example/you/recipes:1' "$3" ;;
"wait --for=condition=Succeeded" | "logs -l" | "delete mpijobs.kubeflow.org") ;;
*) exit 1 ;;
esac
"#;
