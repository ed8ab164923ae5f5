//! The command-line tool. Decides which command runs and what the process ends with. Each command is a
//! file of `verbs`; `local` makes this machine a cluster.
//!
//! [`args`] is the grammar, [`manifest`] reads files, [`lint`] checks them, and [`backend`] is the
//! cluster that a command talks to.

mod args;
mod attempt;
mod backend;
mod children;
mod constant_time;
mod convert;
mod exit;
mod follow;
mod lint;
mod local;
mod manifest;
mod out;
mod rank_mark;
mod report;
mod schema;
mod state;
mod table;
mod terminal;
mod timeline;
mod ui;
pub mod untrusted;
mod verbs;
mod verdict;
mod view;
mod yaml;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::{Cli, Verb};
use crate::exit::Failure;

/// Runs the command that the arguments name.
pub fn run(words: Vec<OsString>) -> ExitCode {
    // The stages of a container come before anything starts a thread: the kernel lets only a
    // single-threaded process enter a user namespace.
    if let Some(code) = local::stages::dispatch(&words) {
        return code;
    }
    let called_as = words.first().cloned().unwrap_or_default();
    let mut grammar = Cli::command();
    if is_plugin(&called_as) {
        grammar = grammar.name("kubectl-mpi").bin_name("kubectl mpi");
    }
    let parsed = grammar
        .try_get_matches_from_mut(words)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runs_a_job = cli.verb.ends_as_its_job();
    match dispatch(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(explain(&error, runs_a_job)),
    }
}

/// kubectl finds plugins by their file name.
fn is_plugin(called_as: &std::ffi::OsStr) -> bool {
    let name = std::path::Path::new(called_as).file_name();
    name.is_some_and(|name| name.to_string_lossy().starts_with("kubectl-"))
}

/// Help and version are data and succeed; a wrong argument is an error.
fn refused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        out::data(&error.render().to_string());
        return ExitCode::SUCCESS;
    }
    out::note(&error.render().to_string());
    ExitCode::from(exit::USAGE)
}

fn explain(error: &anyhow::Error, runs_a_job: bool) -> u8 {
    let failure = error.downcast_ref::<Failure>();
    let text = format!("{error:#}");
    if !text.is_empty() {
        out::note(&format!("{}\n", out::headed(&text)));
    }
    failure.map_or(
        if runs_a_job {
            exit::TROUBLE
        } else {
            exit::FAILED
        },
        |failure| failure.code,
    )
}

fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    out::choose_colour(cli.global.color);
    let global = cli.global;
    match cli.verb {
        Verb::Run(args) => wait_for(verbs::run::run(&global, &args)),
        Verb::Up(args) => wait_for(verbs::up::run(&global, &args)),
        Verb::Down => wait_for(verbs::down::run()),
        Verb::Submit(args) => wait_for(verbs::submit::run(&global, &args)),
        Verb::Get(args) => wait_for(verbs::get::run(&global, &args)),
        Verb::Describe(args) => wait_for(verbs::describe::run(&global, &args)),
        Verb::Why(args) => wait_for(verbs::why::run(&global, &args)),
        // `kubectl explain` explains fields; a name without a dot is a job.
        Verb::Explain(args) if args.name.contains('.') => {
            let (path, recursive, output) = (Some(args.name), false, None);
            verbs::fields::run(&args::FieldsArgs {
                path,
                recursive,
                output,
            })
        }
        Verb::Explain(job) => wait_for(verbs::why::run(&global, &args::why::WhyArgs::plain(job))),
        Verb::Report(args) => wait_for(verbs::report::run(&global, &args)),
        Verb::Ui(args) => wait_for(ui::run(&global, &args)),
        Verb::Logs(args) => wait_for(verbs::logs::run(&global, &args)),
        Verb::Wait(args) => wait_for(verbs::wait::run(&global, &args)),
        Verb::Cancel(args) => wait_for(verbs::cancel::run(&global, &args)),
        Verb::Lint(args) => verbs::lint::run(&args),
        Verb::Render(args) => verbs::render::run(&global, &args),
        Verb::Fields(args) => verbs::fields::run(&args),
        Verb::Convert(args) => verbs::convert::run(&args),
        Verb::Generate(args) => verbs::generate::run(&global, &args),
        Verb::Completion(args) => verbs::completion::run(&args),
        Verb::Man(args) => verbs::man::run(&args),
        Verb::Version(args) => verbs::version::run(&args),
    }
}

/// One thread is enough for waiting, and containers end when the thread that started them does.
fn wait_for(work: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}
