//! Measurements of this repository: `cargo run -p bench -- NAME`. Decides which there are and where
//! their results are kept: one file of numbers each, and a row in the README. Must not know how
//! anything is measured.

mod agent_start;
mod bed;
mod compare;
mod hosts;
mod identities;
mod interruption;
mod local_program;
mod local_rig;
mod local_run;
mod model;
mod page;
mod processor_group;
mod programs;
mod recovery;
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
    /// What `muster run` costs beyond mpirun, the start of 64 workers, and the program itself
    LocalRun(local_run::Arguments),
    /// Time of LAMMPS under `muster run` and under mpirun alone
    LocalProgram(local_program::Arguments),
    /// Time until a program runs again on all hosts after one of its ranks was killed
    Recovery(recovery::Arguments),
    /// The cluster in a value: 10 000 pods once, and simple requests
    Model(model::Arguments),
    /// muster beside Kubeflow's operator, on a real API server: `cargo xtask bench` starts it
    Compare(compare::Arguments),
    /// Write the page of the comparison again, from the kept results
    Page,
}

fn main() -> Result<()> {
    match Arguments::parse().measurement {
        Measurement::AgentStart(arguments) => agent_start::run(&arguments),
        Measurement::LocalRun(arguments) => local_run::run(&arguments),
        Measurement::LocalProgram(arguments) => local_program::run(&arguments),
        Measurement::Recovery(arguments) => recovery::run(&arguments),
        Measurement::Model(arguments) => model::run(&arguments),
        Measurement::Compare(arguments) => compare::run(&arguments),
        Measurement::Page => page::write(),
    }
}
