//! The grammar: commands, flags and their help, in kubectl's spelling. What a command does is in its
//! file of `verbs`.

pub(crate) mod generate;
pub(crate) mod report;
#[cfg(test)]
mod tests;
pub(crate) mod why;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::out::Colour;

/// Runs MPI jobs: the same YAML on this machine or on a Kubernetes cluster
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Namespace [default: the one in the file, then the one of the context]
    #[arg(short, long, global = true)]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig to use
    #[arg(long, global = true)]
    pub(crate) context: Option<String>,
    /// Path of a kubeconfig [default: the files in KUBECONFIG, then ~/.kube/config]
    #[arg(long, global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Use the jobs on this machine instead of a cluster
    #[arg(long, global = true)]
    pub(crate) local: bool,
    /// Print only data and errors, no progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print more; repeat for the log of the controller
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t)]
    pub(crate) color: Colour,
    /// Print one line per change instead of redrawing a progress line
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a job on this machine, without a cluster
    Run(RunArgs),
    /// Start a cluster on this machine, for kubectl and `--local`
    Up(UpArgs),
    /// End the cluster of `muster up`
    Down,
    /// Submit a job to a cluster
    Submit(SubmitArgs),
    /// List jobs
    Get(GetArgs),
    /// Show a job, its pods and its events
    Describe(NameArgs),
    /// Explain why a job waits or why it failed
    Why(why::WhyArgs),
    /// Explain why a job waits or failed, or what a field is for
    #[command(hide = true)]
    Explain(NameArgs),
    /// Write a page that shows what happened to a job
    #[command(after_help = report::REPORT_EXAMPLES)]
    Report(report::ReportArgs),
    /// Show all jobs in a browser, while they run
    #[command(after_help = report::UI_EXAMPLES)]
    Ui(report::UiArgs),
    /// Print the output of a job's programs
    Logs(LogsArgs),
    /// Wait until a job is over, and exit with its code
    Wait(WaitArgs),
    /// Stop a job and remove it
    #[command(alias = "delete")]
    Cancel(CancelArgs),
    /// Check a file and print every error with line and column
    Lint(LintArgs),
    /// Print every object that the operator would create for a job
    Render(RenderArgs),
    /// Write jobs of kubeflow.org/v1alpha1 and v1alpha2 as kubeflow.org/v1
    Convert(ConvertArgs),
    /// Explain the fields of an MPIJob
    Fields(FieldsArgs),
    /// Print a job built from flags
    Generate(GenerateArgs),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
    /// Write the manual pages of all commands into a directory
    #[command(hide = true)]
    Man(ManArgs),
    /// Print the version
    Version(VersionArgs),
}

impl Verb {
    /// The exit code is the job's, so that muster's own errors need another one.
    pub(crate) fn ends_as_its_job(&self) -> bool {
        match self {
            Self::Run(_) | Self::Wait(_) => true,
            Self::Submit(args) => args.wait,
            _ => false,
        }
    }
}

/// Where manual pages go.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// A directory that exists
    pub(crate) directory: PathBuf,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// TYPE/NAME
    Name,
    /// A table with more columns
    Wide,
}

/// A file of jobs.
#[derive(Clone, Debug, Args)]
pub(crate) struct FileArg {
    /// File with one or more objects; - reads stdin
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    file: Option<String>,
    /// The same as FILE, in kubectl's spelling
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "file")]
    filename: Option<String>,
}

impl FileArg {
    /// The file, whichever way it was given.
    pub(crate) fn name(&self) -> &str {
        let given = self.file.as_deref().or(self.filename.as_deref());
        given.expect("clap requires one of the two")
    }
}

#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// json: findings as data on stdout
    #[arg(short, long, value_parser = ["json"])]
    pub(crate) output: Option<String>,
    /// Exit with 1 for warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// yaml, json or name
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    pub(crate) output: Output,
    /// Suffix of host names, e.g. cluster.local
    #[arg(long, default_value = "")]
    pub(crate) cluster_domain: String,
    /// Image of muster-agent that the operator adds to pods; empty: as an operator without --agent-image
    #[arg(long, default_value = concat!("muster-agent:", env!("CARGO_PKG_VERSION")))]
    pub(crate) agent_image: String,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
}

#[derive(Debug, Args)]
pub(crate) struct FieldsArgs {
    /// DIALECT[.PATH] or PATH, e.g. spec.runPolicy or v2beta1.spec.slotsPerWorker
    pub(crate) path: Option<String>,
    /// All fields below, not only the next level
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// json: for editors
    #[arg(short, long, value_parser = ["json"])]
    pub(crate) output: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    pub(crate) what: Generate,
}

/// What can be generated.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// An OpenMPI job, with the parameters of the ksonnet component of that name
    Openmpi(Box<generate::OpenMpi>),
    /// An MPIJob for kubeflow.org/v2beta1
    Mpijob(generate::MpiJob),
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// json or yaml
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,
}

/// A job that exists.
#[derive(Clone, Debug, Args)]
pub(crate) struct NameArgs {
    /// NAME, TYPE/NAME, or @last for the last local run
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// Wait until the job is over, and exit with its code
    #[arg(short, long, visible_alias = "watch")]
    pub(crate) wait: bool,
    /// Print the launcher's output meanwhile
    #[arg(long, requires = "wait")]
    pub(crate) logs: bool,
    /// server: validate on the cluster without creating anything; client: check only the file
    #[arg(long, value_parser = ["client", "server"])]
    pub(crate) dry_run: Option<String>,
    /// json, yaml or name
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// NAME, TYPE/NAME, or @last for the last local run [default: all jobs]
    pub(crate) name: Option<String>,
    /// List the jobs of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only jobs with these labels
    #[arg(short = 'l', long, default_value = "")]
    pub(crate) selector: String,
    /// json, yaml, name or wide
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,
    /// Keep the table up to date; print a line for each change if stdout is no terminal
    #[arg(short, long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) job: NameArgs,
    /// Logs of the launcher; this is the default
    #[arg(long, group = "whose")]
    pub(crate) launcher: bool,
    /// Logs of these workers: 0, 2-5, or 0,3
    #[arg(long, value_name = "LIST", group = "whose")]
    pub(crate) worker: Option<String>,
    /// Lines of these ranks in the launcher's output, if mpirun tags its lines: 0, 2-5, or 0,3
    #[arg(long, value_name = "LIST", group = "whose")]
    pub(crate) rank: Option<String>,
    /// Lines of this attempt, if the job has spec.muster.recovery; the first is 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["worker", "tail", "since"])]
    pub(crate) attempt: Option<u32>,
    /// Logs of this container [default: the main one]
    #[arg(short, long)]
    pub(crate) container: Option<String>,
    /// Keep printing new lines until the container ends
    #[arg(short = 'F', long)]
    pub(crate) follow: bool,
    /// Only this many of the last lines
    #[arg(long)]
    pub(crate) tail: Option<u64>,
    /// Only logs newer than this: 90, 5m, 2h
    #[arg(long, value_parser = duration)]
    pub(crate) since: Option<u64>,
    /// Logs of the previous container instance
    #[arg(short, long)]
    pub(crate) previous: bool,
    /// Print the time before each line
    #[arg(long)]
    pub(crate) timestamps: bool,
    /// Only lines that contain this text
    #[arg(long)]
    pub(crate) grep: Option<String>,
    /// Print the pod's name before each line
    #[arg(long)]
    pub(crate) label: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) job: NameArgs,
    /// Give up after this time (90, 5m, 2h) and exit with 124
    #[arg(long, value_parser = duration)]
    pub(crate) timeout: Option<u64>,
    /// json: print the verdict on stdout
    #[arg(short, long, value_parser = ["json"])]
    pub(crate) output: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// NAME or TYPE/NAME
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
}

/// Seconds, or a number with s, m or h.
fn duration(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text, "s"),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("invalid duration {text:?}; use 90, 5m or 2h"))?;
    Ok(number.saturating_mul(match unit {
        "h" => 3600,
        "m" => 60,
        _ => 1,
    }))
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    #[command(flatten)]
    pub(crate) local_args: LocalArgs,
    /// Give up after this time (90, 5m, 2h) and exit with 124
    #[arg(long, value_parser = duration)]
    pub(crate) timeout: Option<u64>,
    /// json: print the verdict on stdout and the program's output on stderr
    #[arg(short, long, value_parser = ["json"])]
    pub(crate) output: Option<String>,
    /// Write a page that shows what happened, whichever way the job ends
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// What the launcher runs instead of the command in the file
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// How pods become processes of this machine.
#[derive(Clone, Debug, Args)]
pub(crate) struct LocalArgs {
    /// Root directory of the containers [default: the one of this machine]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// host: pods use loopback addresses of this machine; isolated: pods get a network of their own
    /// [default: isolated if this machine has only loopback or the job uses sshd, else host]
    #[arg(long, value_parser = ["host", "isolated"])]
    pub(crate) network: Option<String>,
    /// Mount a file or directory of this machine into every container
    #[arg(long = "mount", value_name = "SOURCE:TARGET[:ro]")]
    pub(crate) mounts: Vec<String>,
    /// Set a variable in every container; NAME alone takes its value from the environment
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) local_args: LocalArgs,
    /// Port of the API on 127.0.0.1; 0 takes any free port
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,
}
