//! The flags of `muster report` and `muster ui`.

use std::path::PathBuf;

use clap::Args;

use super::NameArgs;

/// What follows the help of `muster report`.
pub(crate) const REPORT_EXAMPLES: &str = "\
Examples:
  muster report @last -o last.html           the last run on this machine
  muster report train -n lab -o train.html   a job of a cluster
  muster report train -o json                the same as data (docs/reference/report.md)
  muster run job.yaml --report job.html      run a job, and report it

The file loads nothing from a network. Values of variables, flags and keys whose names say that they
are secret are left out; read the last lines of the logs before you give the file away.";

/// What follows the help of `muster ui`.
pub(crate) const UI_EXAMPLES: &str = "\
Examples:
  muster ui               the jobs of the context's namespace
  muster ui -A            the jobs of all namespaces
  muster ui --local       the jobs on this machine

The page shows what you may read with your kubeconfig, and changes nothing. It is served on 127.0.0.1 to
whoever opens the printed link first.";

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) job: NameArgs,
    /// A file to write; json or html print to stdout [default: NAME.html]
    #[arg(short, long, value_name = "FILE|json|html")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Show the jobs of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Port on 127.0.0.1; 0 takes any free port
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
}
