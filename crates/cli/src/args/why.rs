//! The flags of `muster why`.

use clap::Args;

use super::NameArgs;

/// Which job, and how much of its past.
#[derive(Clone, Debug, Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) job: NameArgs,
    /// Show what each pod did when, as bars
    #[arg(long)]
    pub(crate) timeline: bool,
    /// json: the timeline as data
    #[arg(short, long, value_parser = ["json"], requires = "timeline")]
    pub(crate) output: Option<String>,
}

impl WhyArgs {
    /// Without a timeline.
    pub(crate) fn plain(job: NameArgs) -> Self {
        Self {
            job,
            timeline: false,
            output: None,
        }
    }
}
