//! What a newcomer sees first. Decides where the demonstration takes place: on this machine as it
//! is, or on a real cluster that is made for it. Must not know what is shown in either place.

mod cluster;
mod here;
mod mpi;

use anyhow::Result;

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
