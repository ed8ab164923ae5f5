//! Bad weather: builds the simulator so that it is fast, and runs it. Decides the build; what the simulator
//! does and prints is its own.

mod mutants;

use std::process::Command;

use anyhow::Result;

use crate::command::{self, cargo};

/// Run the operator through bad weather, in simulated time
#[derive(clap::Args)]
pub(crate) struct Args {
    /// `--schedules N` (the same as `run --schedules N`), `twice`, `exhaustive FILES`, `explain SEED`,
    /// `scenarios FILES`, `laws`, or `mutants [NAMES]`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match args.words.first().map(String::as_str) {
        Some("mutants") => mutants::run(&args.words[1..]),
        Some(word) if !word.starts_with('-') => command::run(simulator().args(&args.words)),
        _ => command::run(simulator().arg("run").args(&args.words)),
    }
}

/// Scenarios of which every write is disturbed in every way by `make test-all`.
const CORE: [&str; 6] = [
    "start-and-succeed",
    "fail-and-retry",
    "suspend-and-resume",
    "scale-down",
    "delete-while-running",
    "recreate",
];
/// Seeds that it runs.
const SCHEDULES: &str = "2000";

/// What must hold: every single fault of the core scenarios, and random ones.
pub(crate) fn checks() -> [Command; 2] {
    let (mut random, mut exhaustive) = (simulator(), simulator());
    random.args(["run", "--schedules", SCHEDULES]);
    let path = |name: &str| format!("crates/simulator/tests/scenarios/{name}.txt");
    exhaustive.arg("exhaustive").args(CORE.map(path));
    [exhaustive, random]
}

/// The simulator, optimised: built first, if it must be.
fn simulator() -> Command {
    let mut simulator = cargo("run");
    simulator.args(["--quiet", "--profile", "weather"]);
    simulator.args(["--package", "simulator", "--"]);
    simulator
}
