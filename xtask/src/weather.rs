//! Bad weather: builds the simulator so that it is fast, and runs it. Decides the build; what the simulator
//! does and prints is its own.

mod mutants;

use std::process::Command;

use anyhow::Result;

use crate::command::{self, cargo};
use crate::root;

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

/// Scenarios of which every write is disturbed in every way by `make test`, and by `make test-all` twice.
const CORE: [&str; 6] = [
    "start-and-succeed",
    "fail-and-retry",
    "suspend-and-resume",
    "scale-down",
    "delete-while-running",
    "recreate",
];
/// Seeds that `make test` runs; `make test-all` runs others.
const SCHEDULES: &str = "10000";
const MORE_SCHEDULES: &str = "20000";

/// What must hold after every change: every single fault of the core scenarios, and random ones.
pub(crate) fn checks() -> Vec<Command> {
    vec![
        exhaustive(&CORE, &[]),
        with(&["run", "--schedules", SCHEDULES]),
    ]
}

/// What takes longer: every scenario, also with two operators, pairs of faults, more random ones, and that
/// a seed gives the same run twice.
pub(crate) fn long_checks() -> Result<Vec<Command>> {
    let all = scenarios()?;
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    Ok(vec![
        exhaustive(&all, &[]),
        exhaustive(&all, &["--operators", "2"]),
        exhaustive(&CORE, &["--pairs"]),
        with(&["run", "--from", SCHEDULES, "--schedules", MORE_SCHEDULES]),
        with(&["twice", "--schedules", "1000"]),
    ])
}

const SCENARIOS: &str = "crates/simulator/tests/scenarios";

/// The names of all scenarios.
fn scenarios() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join(SCENARIOS))? {
        let name = entry?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".txt"));
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn exhaustive(scenarios: &[&str], how: &[&str]) -> Command {
    let mut command = with(&["exhaustive"]);
    let path = |name: &&str| format!("{SCENARIOS}/{name}.txt");
    command.args(how).args(scenarios.iter().map(path));
    command
}

fn with(words: &[&str]) -> Command {
    let mut command = simulator();
    command.args(words);
    command
}

/// The simulator, optimised: built first, if it must be.
fn simulator() -> Command {
    let mut simulator = cargo("run");
    simulator.args(["--quiet", "--profile", "weather"]);
    simulator.args(["--package", "simulator", "--"]);
    simulator
}
