//! What a newcomer sees first. Decides where the demonstration takes place: on this machine as it
//! is, or on a real cluster that is made for it. Must not know what is shown in either place.

mod cluster;
mod here;
mod mpi;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::command;
use crate::interrupts::Interrupts;

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// On a real Kubernetes cluster that is started for it; needs root
    #[arg(long)]
    cluster: bool,
    /// Leave the cluster running, with the images of all examples
    #[arg(long, requires = "cluster")]
    keep: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    match args.cluster {
        true => cluster::run(args.keep),
        false => here::run(),
    }
}

fn build(interrupts: &Interrupts, package: &str) -> Result<()> {
    let mut cargo = command::cargo("build");
    let status = interrupts.run_shown(cargo.args(["--package", package]))?;
    ensure!(status.success(), "`cargo build --package {package}` failed");
    Ok(())
}

/// Where cargo put what it built, this program included.
fn programs() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find out where this program is")?;
    let directory = own.parent().context("this program lies nowhere")?;
    Ok(directory.to_owned())
}
