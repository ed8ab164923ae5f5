//! The one command of this repository. Decides which chore runs; must not know how any of them
//! works: each lives in a file of its own that exposes `Args` and `run`.

mod archive;
mod artifacts;
mod bench;
mod cache;
mod clients;
mod cluster;
mod codegen;
mod command;
mod demo;
mod fuzz;
mod gangs;
mod go;
mod images;
mod interrupts;
mod packages;
mod pictures;
mod platform;
mod queues;
mod release;
mod test;
mod tidy;
mod weather;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the muster repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run everything that must hold before a change lands (what `make test` calls)
    Test(test::Args),
    /// Run MPI jobs on this machine, and show what happens (`make demo`); or on a real cluster
    Demo(demo::Args),
    /// Real Kubernetes on this machine: up, down, status, kubectl
    Cluster(cluster::Args),
    /// Build what the tests need and is slow to build, and run no test
    Build(artifacts::Args),
    /// Assemble the container images as archives, without a registry
    Images(images::Args),
    /// Make everything that a release has, with checksums
    Release(release::Args),
    /// Write the generated files of deploy/ and docs/
    Codegen(codegen::Args),
    /// Draw the pictures of docs/ in a browser
    Pictures,
    /// Check the style rules that no compiler checks
    Tidy(tidy::Args),
    /// Measure muster beside Kubeflow's operator, on a real API server
    Bench(bench::Args),
    /// Have a coverage-guided fuzzer choose the bytes for the fuzz targets
    Fuzz(fuzz::Args),
    /// Run the operator through bad weather, in simulated time; explain what one seed does
    Weather(weather::Args),
}

fn main() -> ExitCode {
    match run(Xtask::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The sentence, and not where in this program it was made.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Test(args) => test::run(args),
        Chore::Demo(args) => demo::run(args),
        Chore::Cluster(args) => cluster::run(args),
        Chore::Build(args) => artifacts::run(&args),
        Chore::Images(args) => images::run(args),
        Chore::Release(args) => release::run(&args),
        Chore::Codegen(args) => codegen::run(args),
        Chore::Pictures => pictures::run(),
        Chore::Tidy(args) => tidy::run(&args),
        Chore::Bench(args) => bench::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Weather(args) => weather::run(&args),
    }
}

/// The root of the repository that this program was built from.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root of the repository")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_of_all_chores_fit_together() {
        Xtask::command().debug_assert();
    }
}
