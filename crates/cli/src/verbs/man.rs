//! `muster man DIRECTORY`: a manual page for each command. Hidden: those who package muster call it.

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;

use crate::args::{Cli, ManArgs};

pub(crate) fn run(args: &ManArgs) -> Result<u8> {
    let directory = &args.directory;
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("cannot write manual pages into {}", directory.display()))?;
    Ok(0)
}
