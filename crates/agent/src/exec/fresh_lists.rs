//! The launcher's host lists, once more before its command starts: a container that is restarted in
//! place finds those of the gate before, and a worker may have been replaced since; so may one between two
//! attempts. Decides how long that may take and what a failure is called; must not know how workers are
//! asked.

use std::time::Duration;

use anyhow::Result;
use contract::agent_report::{AgentReport, RunVerdict};
use contract::{env, exit_code};

use crate::gate::{End, Patience, Progress, Wait};
use crate::hosts::HostsFile;
use crate::signals::Signals;
use crate::{host_lists, settings};

/// The workers that there are have answered by then, and the kubelet has brought their addresses.
const PATIENCE: Duration = Duration::from_secs(120);
/// A node that does not answer is given up by Kubernetes after five minutes; then the worker has to be
/// scheduled again, and its image pulled.
const REPLACEMENT_PATIENCE: Duration = Duration::from_secs(900);

/// Workers that are there answer within this time.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What becomes of the command.
pub(super) enum Start {
    /// With so many workers, if that is known. A job that is scaled from now on changes nothing.
    Workers(Option<usize>),
    /// There is no point in it.
    Never(AgentReport),
    /// A signal came first.
    Stopped(AgentReport),
}

/// Waits for all workers and writes the lists, if the operator asked for them here.
pub(super) fn written(signals: &Signals) -> Result<Start> {
    if settings::variable(env::LISTS_DIR).is_none() {
        return Ok(Start::Workers(
            HostsFile::of_environment().listing().workers,
        ));
    }
    let patience = patience();
    let mut wait = Wait::new(Some(patience), Progress::of_exec())?;
    // Where the gate let go, this must not fail.
    wait.let_go_of_ssh_within(patience);
    opened(wait, signals)
}

/// Waits until nothing is left of the attempt with this mark on any worker, and writes the lists, if the
/// operator asked for them here. A worker that is not there may be replaced meanwhile, where somebody does
/// that.
pub(super) fn after(mark: &str, is_replaced: bool, signals: &Signals) -> Result<Start> {
    let busy = patience();
    let absent = match is_replaced {
        true => settings::seconds(env::REPLACEMENT_TIMEOUT).unwrap_or(REPLACEMENT_PATIENCE),
        false => busy,
    };
    let patience = Patience { absent, busy };
    opened(Wait::after(mark, patience, Progress::of_exec())?, signals)
}

/// Waits until nothing is left of an earlier launcher on the workers that answer. An elastic program may begin
/// before all of them are there, and nothing was left on a worker that is yet to come.
pub(super) fn inherited(mark: &str, signals: &Signals) -> Result<Start> {
    let patience = Patience {
        absent: ANSWER_MAX,
        busy: patience(),
    };
    let mut wait = Wait::after(mark, patience, Progress::of_exec())?;
    Ok(match wait.until_open(Some(signals))? {
        End::Signal(signal) => Start::Stopped(stopped(signal, wait.asked())),
        End::Deadline if wait.is_busy() => {
            let exit = exit_code::WORKER_LOST;
            Start::Never(wait.given_up(RunVerdict::WorkerUnreachable, exit))
        }
        _ => Start::Workers(wait.asked()),
    })
}

fn patience() -> Duration {
    settings::seconds(env::LISTS_TIMEOUT).unwrap_or(PATIENCE)
}

fn opened(mut wait: Wait, signals: &Signals) -> Result<Start> {
    Ok(match wait.until_open(Some(signals))? {
        End::AllAnswered(workers) | End::LetGo(workers) => {
            host_lists::write_as_asked(&workers)?;
            Start::Workers(wait.asked())
        }
        End::Deadline => {
            let exit = exit_code::WORKER_LOST;
            Start::Never(wait.given_up(RunVerdict::WorkerUnreachable, exit))
        }
        End::Ended(workers) => Start::Never(wait.given_up_ended(&workers)),
        End::Signal(signal) => Start::Stopped(stopped(signal, wait.asked())),
    })
}

/// The report that a signal came before the command.
pub(super) fn stopped(signal: i32, asked: Option<usize>) -> AgentReport {
    let exit = 128 | u8::try_from(signal & 0x7f).unwrap_or_default();
    let message = format!("ended by signal {signal} while waiting for workers");
    AgentReport {
        asked,
        ..AgentReport::new(RunVerdict::Stopped, exit, message)
    }
}
