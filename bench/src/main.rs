//! Measurements of this repository: `cargo run -p bench -- NAME`. Decides which there are and where
//! their results are kept: one file of numbers each, and a row in the README. Must not know how
//! anything is measured.

mod agent_start;
mod hosts;
mod identities;
mod interruption;
mod processor_group;
mod results;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Subcommand)]
enum Measurement {
    /// Time of `mpirun hostname` from start to exit, over the agent and over OpenSSH
    AgentStart(agent_start::Arguments),
}

fn main() -> Result<()> {
    match Arguments::parse().measurement {
        Measurement::AgentStart(arguments) => agent_start::run(&arguments),
    }
}
