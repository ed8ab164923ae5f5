//! `exec -- COMMAND…`: the launcher's wrapper. Runs the command, again where the job asks for that, and leaves
//! a verdict of its own. Decides when an attempt may begin: when nothing that the one before has started is
//! left, on any host. Must not know how an attempt is watched (`attempt`), nor which failure is worth
//! another (`recovery`).

mod answers;
mod arrivals;
mod attempt;
mod callers;
mod census;
mod fresh_lists;
mod launcher_env;
mod planned_stop;
mod recovery;
mod run_directory;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use contract::agent_report::{AgentReport, RunVerdict, attempt_line};
use contract::exit_code;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::attempt_mark::LauncherStart;
use crate::children::Children;
use crate::signals::Signals;
use crate::tree::{below_this_process, end_all};
use crate::{gate, settings, spawn_error, termination_log};
use attempt::{Attempt, AttemptNumber, Launcher};
use fresh_lists::Start;
use recovery::{Attempts, Policy};

/// Runs the command; returns the container's exit code.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("exec needs a command after --");
    };
    let signals = Signals::watch(&[SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let asked = match fresh_lists::written(&signals)? {
        Start::Workers(asked) => asked,
        Start::Never(report) => return Ok(gate::told(&report)),
        Start::Stopped(report) => {
            termination_log::write(&report.to_json());
            return Ok(report.exit);
        }
    };
    let binary = std::env::current_exe().context("cannot find this program's own file")?;
    let launcher = Launcher {
        shim_directory: binary.parent().unwrap_or(Path::new("/")),
        program,
        arguments,
        children: &Children::adopt()?,
        signals: &signals,
    };
    let report = run_attempts(&launcher, asked);
    termination_log::write(&report.to_json());
    Ok(report.exit)
}

/// Runs the command until it has succeeded, or must not be started again.
fn run_attempts(launcher: &Launcher<'_>, mut asked: Option<usize>) -> AgentReport {
    let mut attempts = Attempts::new(Policy::of_environment());
    let start = LauncherStart::new();
    // A launcher whose pod was lost may have left a program that runs.
    if attempts.may_follow() {
        match way_of(fresh_lists::inherited(&start.beginning(), launcher.signals)) {
            Way::Clear(workers) => asked = workers,
            Way::Stopped(stopped) => return printed(stopped),
            Way::Blocked(why) => return printed(cannot_begin(&why, asked)),
        }
    }
    loop {
        let mark = start.attempt(attempts.number());
        let begun = Instant::now();
        attempts.begins(arrivals::now_ms());
        let attempt = {
            let number = AttemptNumber {
                is_again: attempts.number() > 1,
                may_be_followed: attempts.may_follow(),
            };
            Attempt::start(launcher, asked, &attempts.variables(), mark.clone(), number)
        };
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(error) => {
                let report = cannot_run(launcher.program, &error, asked);
                return attempts.told(report);
            }
        };
        let (report, ended) = attempt.concluded();
        attempts.heard_of_ranks(report.ranks_started_ms);
        let Some(restart) = attempts.restart_after(&report, ended.duration_since(begun)) else {
            return printed(attempts.told(report));
        };
        match way_for_another(&attempts, launcher.signals, &mark) {
            Way::Clear(workers) => asked = workers,
            Way::Stopped(stopped) => return printed(attempts.told(stopped)),
            Way::Blocked(why) => return printed(attempts.blocked(report, &why)),
        }
        attempts.advance(restart);
        let begins = attempt_line(attempts.number(), restart.most);
        let reason = restart.ended.reason.as_str();
        eprintln!("{begins}{reason}: {}", report.message);
    }
}

/// Whether another attempt can begin.
enum Way {
    /// With so many workers, if that is known.
    Clear(Option<usize>),
    Stopped(AgentReport),
    Blocked(String),
}

/// Ends what is left of the attempt with this mark, on this host and on all workers, and passes the gate
/// again.
fn way_for_another(attempts: &Attempts, signals: &Signals, mark: &str) -> Way {
    let way = match end_all(|| below_this_process(|_| false), settings::grace()) {
        true => {
            let is_replaced = attempts.waits_for_replacements();
            way_of(fresh_lists::after(mark, is_replaced, signals))
        }
        false => Way::Blocked("a process of the launcher does not end".to_owned()),
    };
    // It may have come while nobody looked.
    match (way, gate::signal_to_end(signals)) {
        (Way::Stopped(report), _) => Way::Stopped(report),
        (Way::Clear(workers), Some(signal)) => Way::Stopped(fresh_lists::stopped(signal, workers)),
        (Way::Blocked(_), Some(signal)) => Way::Stopped(fresh_lists::stopped(signal, None)),
        (way, None) => way,
    }
}

fn way_of(start: Result<Start>) -> Way {
    match start {
        Ok(Start::Workers(workers)) => Way::Clear(workers),
        Ok(Start::Never(report)) => Way::Blocked(report.message),
        Ok(Start::Stopped(report)) => Way::Stopped(report),
        Err(error) => Way::Blocked(format!("{error:#}")),
    }
}

fn cannot_begin(why: &str, asked: Option<usize>) -> AgentReport {
    let message = format!("the program could not begin: {why}");
    AgentReport {
        asked,
        ..AgentReport::new(
            RunVerdict::WorkerUnreachable,
            exit_code::WORKER_LOST,
            message,
        )
    }
}

fn cannot_run(program: &OsStr, error: &io::Error, asked: Option<usize>) -> AgentReport {
    let (message, exit) = spawn_error::explain(program, error);
    eprintln!("muster-agent: {message}");
    AgentReport {
        asked,
        ..AgentReport::new(RunVerdict::Failed, exit, message)
    }
}

fn printed(report: AgentReport) -> AgentReport {
    if report.exit != 0 {
        let verdict = report.verdict.as_str();
        eprintln!("muster-agent: {verdict}: {}", report.message);
    }
    report
}
