//! The comparison with Kubeflow's operator: builds both operators and what measures them, starts a
//! cluster without nodes, and ends all of it, however the measurement ends. Decides nothing about what
//! is measured: that is in `bench`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::cluster::{self, Guard, Spec};
use crate::command::cargo;
use crate::go::Module;
use crate::images;
use crate::interrupts::Interrupts;

/// Its cluster; no other chore has one of this name.
const NAME: &str = "bench";
/// Of what measures; the operators are as they are shipped.
const PROFILE: &str = "weather";

/// Measure muster beside Kubeflow's operator, on a real API server
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Two sizes and two blocks: a quarter of an hour. What is measured unless --full is given
    #[arg(long)]
    quick: bool,
    /// All sizes and five blocks: hours
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Only what is measured with this metric, such as B6
    #[arg(long)]
    only: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupts = Interrupts::watch()?;
    let peer = peer()?;
    let operator = images::operator_program()?;
    let mut build = cargo("build");
    build.args(["--profile", PROFILE, "--package", "bench"]);
    let status = interrupts.run_shown(&mut build)?;
    ensure!(status.success(), "cannot build what measures: {status}");

    let guard = Guard::new(NAME, false);
    cluster::down(NAME)?; // what an earlier run left would be measured too
    let running = cluster::up(&Spec {
        name: NAME.to_owned(),
        nodes: 0,
        archives: Vec::new(),
    })?;
    let mut bench = cargo("run");
    bench.args(["--quiet", "--profile", PROFILE, "--package", "bench"]);
    bench.args(["--", "compare"]);
    bench.args(args.full.then_some("--full"));
    for metric in &args.only {
        bench.args(["--only", metric]);
    }
    bench.env("MUSTER_E2E_STATE", &running.state_dir);
    bench.env("MUSTER_E2E_OPERATOR", operator);
    bench.env("MUSTER_BENCH_PEER", peer);
    let status = interrupts.run_shown(&mut bench);
    guard.close().context("cannot end the cluster")?;
    let status = status?;
    ensure!(status.success(), "the measurement failed: {status}");
    Ok(())
}

/// Kubeflow's operator, from its published Go module and with the dependencies that it was released with.
fn peer() -> Result<PathBuf> {
    let module = Module {
        name: "peer",
        programs: &["github.com/kubeflow/mpi-operator/cmd/mpi-operator"],
        ldflags: String::new(),
        at_once: None,
    };
    Ok(module.built()?.join("mpi-operator"))
}
