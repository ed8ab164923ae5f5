//! The grammar: verbs, flags and their help, in kubectl's spelling. Decides words only; what a
//! verb does is in its file.

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

/// Flags that every verb takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Namespace; default: the file's, then the context's
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) context: Option<String>,
    /// Path of a kubeconfig
    #[arg(
        long,
        global = true,
        env = "KUBECONFIG",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Speak to the jobs of this machine, not to a cluster
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) local: bool,
    /// No progress, only errors and data
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// More words; twice for the log of the controller
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// When to colour
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        help_heading = "Global options"
    )]
    pub(crate) color: Colour,
    /// One line per change instead of a block that is redrawn
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_progress: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Say everything that is wrong with a file, with line and column
    Lint(LintArgs),
    /// Print every object that a job would become
    Render(RenderArgs),
    /// Explain the fields of an MPIJob
    Fields(FieldsArgs),
    /// Print a job made from flags
    Generate(GenerateArgs),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
    /// Print the version
    Version(VersionArgs),
}

impl Verb {
    /// The process ends as the job did, so that muster's own trouble needs another code.
    pub(crate) fn ends_as_its_job(&self) -> bool {
        false
    }
}

/// Forms of objects.
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
    /// File of one or more objects; - is stdin
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    file: Option<String>,
    /// The same as FILE, in kubectl's spelling
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "file")]
    filename: Option<String>,
}

impl FileArg {
    /// The name, however it was given.
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
    Openmpi(Box<crate::verbs::generate::OpenMpi>),
    /// An MPIJob for kubeflow.org/v2beta1
    Mpijob(crate::verbs::generate::MpiJob),
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
