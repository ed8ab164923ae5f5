//! `muster completion SHELL`: a script to source.

use anyhow::Result;
use clap::CommandFactory as _;

use crate::args::{Cli, CompletionArgs};
use crate::out;

pub(crate) fn run(args: &CompletionArgs) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "muster", &mut script);
    out::data(&String::from_utf8_lossy(&script));
    Ok(0)
}
