//! Bad weather: builds the simulator so that it is fast, and runs it. Decides the build; what the simulator
//! does and prints is its own.

use anyhow::Result;

use crate::command::{self, cargo};

/// Run the operator through bad weather, in simulated time
#[derive(clap::Args)]
pub(crate) struct Args {
    /// `--schedules N` (the same as `run --schedules N`), `twice`, `exhaustive FILES`, `explain SEED`,
    /// `laws`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut simulator = cargo("run");
    simulator.args(["--quiet", "--profile", "weather"]);
    simulator.args(["--package", "simulator", "--"]);
    if args.words.first().is_none_or(|word| word.starts_with('-')) {
        simulator.arg("run");
    }
    command::run(simulator.args(&args.words))
}
