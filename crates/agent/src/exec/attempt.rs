//! One attempt of the launcher's command. Decides when it is over although its launcher goes on, carries
//! signals to the whole tree, and reports how it ended. Must not know launchers beyond their environment
//! (`launcher_env`) and their sessions (`census`), nor whether another attempt follows.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use contract::agent_report::{AgentReport, RunVerdict};
use contract::{env, exit_code};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, getuid};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use super::answers;
use super::arrivals::{Arrivals, now_ms};
use super::callers::Callers;
use super::census::{Census, Trouble};
use super::launcher_env::{self, LauncherEnv};
use super::planned_stop::{Leave, StopPolicy};
use super::run_directory::RunDirectory;
use crate::caller::{Caller, ticks_since_boot};
use crate::children::{Child, Children};
use crate::poll::poll;
use crate::ranks;
use crate::settings;
use crate::signals::Signals;
use crate::tree::{Process, Tree};

/// How often sessions are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// A killed shim changes no file; this often its process is looked for.
const SHIM_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A launcher that a script runs may be tried again, once it has ended by itself. Open MPI needs a
/// little over two seconds for that when a rank has failed.
const SCRIPT_PATIENCE: Duration = Duration::from_secs(6);
/// What a launcher that went on regardless still gets; ranks have a grace of their own.
const LAUNCHER_GRACE_MAX: Duration = Duration::from_secs(2);
/// Shims end when their daemons do, which is a moment after the launcher.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(2);
const LEFTOVER_LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// When told to stop, the command has almost as long as the kubelet gives by default.
const STOP_PATIENCE: Duration = Duration::from_secs(25);

/// What every attempt runs.
pub(super) struct Launcher<'s> {
    /// Where the shim is.
    pub(super) shim_directory: &'s Path,
    pub(super) program: &'s OsString,
    pub(super) arguments: &'s [OsString],
    pub(super) children: &'s Children,
    pub(super) signals: &'s Signals,
}

/// Which of several attempts one is.
#[derive(Clone, Copy)]
pub(super) struct AttemptNumber {
    /// There was one before.
    pub(super) is_again: bool,
    /// Another may follow.
    pub(super) may_be_followed: bool,
}

/// A command that runs.
pub(super) struct Attempt<'s> {
    child: Child,
    tree: Tree,
    signals: &'s Signals,
    run_directory: RunDirectory,
    census: Census,
    arrivals: Arrivals,
    mark: String,
    stop_policy: Option<StopPolicy>,
    leave: Option<Leave>,
    stopped: Option<i32>,
    stop_until: Option<Instant>,
}

impl<'s> Attempt<'s> {
    /// Starts the command with so many workers, if that is known, with these variables on top of its
    /// environment, and under this mark, which no other attempt has.
    pub(super) fn start(
        launcher: &Launcher<'s>,
        asked: Option<usize>,
        variables: &[(&str, String)],
        mark: String,
        number: AttemptNumber,
    ) -> io::Result<Self> {
        let run_directory = RunDirectory::make(&mark, number.is_again);
        let mut command = Command::new(launcher.program);
        command.args(launcher.arguments);
        let launcher_env = LauncherEnv {
            shim_directory: launcher.shim_directory,
            workers: asked.unwrap_or_default(),
            root: getuid().is_root(),
            interface: launcher_env::interface(),
            ends_at_once: number.may_be_followed,
            rank_wrapper: ranks::wrapper().ok(),
        };
        let settings = launcher_env.variables(|name| std::env::var_os(name));
        let kills_at_once = launcher_env::kills_at_once(&settings);
        command.envs(settings);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.env(env::EXEC_MARK, &mark);
        // Hydra would lay it over the workers' own.
        command.env_remove(env::SESSION_MARK);
        if let Some(directory) = &run_directory.path {
            command.env(env::RUN_DIR, directory);
        }
        let child = launcher.children.spawn(&mut command)?;
        Ok(Self {
            tree: Tree::new(child.process, env::EXEC_MARK, mark.clone()),
            child,
            signals: launcher.signals,
            run_directory,
            census: Census {
                records: Vec::new(),
                callers: Callers::default(),
                asked,
                counts_hosts: !is_off(env::CENSUS),
                watches_ranks: !is_off(env::RANK_WATCH),
                kills_at_once,
            },
            arrivals: Arrivals::default(),
            mark,
            stop_policy: StopPolicy::of_environment(),
            leave: None,
            stopped: None,
            stop_until: None,
        })
    }

    /// Waits until the command is over, with everything that it has started on this host. Also says when it
    /// was over, or in trouble for which it was ended.
    pub(super) fn concluded(mut self) -> (AgentReport, Instant) {
        let ended_for = self.watch();
        let ended = ended_for
            .as_ref()
            .map_or_else(Instant::now, |(_, since)| *since);
        let ended_for = ended_for.map(|(trouble, _)| trouble);
        if ended_for.is_some() || self.is_out_of_time() {
            self.tree.end(settings::grace().min(LAUNCHER_GRACE_MAX));
        }
        self.wait_for_leftovers();
        self.run_directory.forget();
        self.look();
        if self.stopped.is_none() && self.leave.is_none() {
            self.census.note_silent(shim_lives, answers::answers);
        }
        let ending = self.child.exit.ending();
        let code = ending.map_or(exit_code::WORKER_LOST, |ending| ending.shell_code());
        let census = &self.census;
        let report = census.report(code, self.stopped, ended_for, shim_lives);
        let has_succeeded = report.verdict == RunVerdict::Succeeded;
        let report = AgentReport {
            ranks_started_ms: self.arrivals.last_ms(has_succeeded),
            ..report
        };
        let leave = self.leave.as_ref().filter(|_| self.stopped.is_none());
        (
            leave.map_or(report.clone(), |leave| leave.report(report)),
            ended,
        )
    }

    /// It was told to stop, and its time for that is over.
    fn is_out_of_time(&self) -> bool {
        let until = [
            self.stop_until,
            self.leave.as_ref().map(|leave| leave.until),
        ];
        let mut until = until.into_iter().flatten();
        until.any(|until| Instant::now() >= until)
    }

    /// Stops the program if a worker has to leave.
    fn heed_leaving(&mut self) {
        let Some(policy) = self.stop_policy else {
            return;
        };
        if self.leave.is_none() && self.stopped.is_none() {
            let workers = self.census.leaving();
            self.leave = (!workers.is_empty()).then(|| {
                let own = self.tree.members();
                Leave::begin(workers, policy, &self.mark, own)
            });
        }
    }

    /// Until the command has ended, or must be ended; the trouble for which it must, and since when there
    /// is, if it is not that it was told to.
    fn watch(&mut self) -> Option<(Trouble, Instant)> {
        let mut trouble: Option<(Trouble, Option<Caller>, Instant)> = None;
        let mut shims_looked_at = Instant::now();
        loop {
            if self.child.exit.ending().is_some() {
                return None;
            }
            let mut fds = [
                PollFd::new(&*self.child.exit, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            // A failed wait only makes this loop turn again.
            let _ = poll(&mut fds, LOOK_INTERVAL);
            self.carry_signals();
            if self.is_out_of_time() {
                return None;
            }
            let shims_due = shims_looked_at.elapsed() >= SHIM_LOOK_INTERVAL;
            if self.look() || shims_due {
                shims_looked_at = Instant::now();
                self.heed_leaving();
                let before = trouble.map(|(_, caller, since)| (caller, since));
                let now = self.census.trouble(shim_lives);
                trouble = now.map(|(trouble, caller)| {
                    // Another launcher has the same time to notice by itself.
                    let same = before.filter(|(other, _)| *other == caller);
                    let since = same.map_or_else(Instant::now, |(_, since)| since);
                    (trouble, caller, since)
                });
            }
            if let Some((trouble, caller, since)) = &trouble
                && since.elapsed() >= self.patience(trouble, *caller)
                && self.stopped.is_none()
                && self.leave.is_none()
            {
                let sentence = trouble.sentence();
                eprintln!(
                    "muster-agent: {sentence}; the launcher still runs, so the agent ends it"
                );
                return Some((trouble.clone(), *since));
            }
        }
    }

    /// How long its launcher may go on after it.
    fn patience(&self, trouble: &Trouble, caller: Option<Caller>) -> Duration {
        let own = std::process::id().cast_signed();
        let by_script =
            caller.is_some_and(|caller| ![own, self.child.process.number].contains(&caller.number));
        if by_script {
            trouble.patience().max(SCRIPT_PATIENCE)
        } else {
            trouble.patience()
        }
    }

    /// Whether there was anything new.
    fn look(&mut self) -> bool {
        let records = self.run_directory.read();
        let new = records.is_some();
        if let Some(records) = records {
            self.arrivals.look(&records, now_ms());
            self.census.records = records;
        }
        let census = &mut self.census;
        let now = ticks_since_boot();
        let changed = census.callers.look(&census.records, now, Caller::lives);
        if changed && let Some(directory) = &self.run_directory.path {
            let (forgotten, records): (Vec<_>, _) = std::mem::take(&mut census.records)
                .into_iter()
                .partition(|record| census.callers.is_forgotten(record.caller));
            census.records = records;
            forgotten.iter().for_each(|record| record.remove(directory));
        }
        new || changed
    }

    /// Signals that end go to everyone but our shims: Intel's `mpirun` is a script that would keep
    /// them to itself, while a shim that ends takes away the launcher's chance to end well.
    fn carry_signals(&mut self) {
        for number in self.signals.take() {
            let Some(signal) = Signal::from_named_raw(number) else {
                continue;
            };
            if matches!(number, SIGUSR1 | SIGUSR2) {
                self.child.process.signal(signal);
                continue;
            }
            let is_first = self.stopped.is_none();
            self.stopped.get_or_insert(number);
            self.look();
            // Where ranks are told in another way, the launcher ends when they have. A program must not be
            // told twice: it may be writing a checkpoint.
            if let Some(policy) = self.stop_policy.filter(|_| is_first && self.census.runs()) {
                let told = self.leave.as_ref().map(|leave| leave.until);
                let tell = || policy.tell_ranks(&self.mark, self.tree.members());
                self.stop_until = Some(told.unwrap_or_else(tell));
                continue;
            }
            let patience = settings::seconds(env::GRACE).unwrap_or(STOP_PATIENCE);
            self.stop_until.get_or_insert(Instant::now() + patience);
            let members = self.tree.members();
            for member in members.iter().filter(|member| !member.runs_our_program()) {
                member.signal(signal);
            }
        }
    }

    /// Shims that still write their record, and what a script left behind.
    fn wait_for_leftovers(&self) {
        let until = Instant::now() + LEFTOVER_PATIENCE;
        while !self.tree.members().is_empty() {
            if Instant::now() >= until {
                return self.tree.end(settings::grace());
            }
            std::thread::sleep(LEFTOVER_LOOK_INTERVAL);
        }
    }
}

fn is_off(name: &str) -> bool {
    settings::variable(name).is_some_and(|value| value.eq_ignore_ascii_case(env::OFF))
}

fn shim_lives(number: u32) -> bool {
    Process::read(number.cast_signed()).is_some_and(|process| !process.zombie)
}
