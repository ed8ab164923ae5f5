//! `exec -- COMMAND…`: the launcher's wrapper. Decides when a run is over although its launcher goes
//! on, carries signals to the whole tree, and leaves a verdict of its own. Must not know launchers
//! beyond their environment (`launcher_env`) and their sessions (`census`).

mod answers;
mod callers;
mod census;
mod fresh_lists;
mod launcher_env;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use contract::agent_report::{AgentReport, RunVerdict};
use contract::{env, exit_code};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, getuid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::caller::{Caller, ticks_since_boot};
use crate::children::{Child, Children};
use crate::poll::poll;
use crate::ranks;
use crate::session_record::SessionRecord;
use crate::settings;
use crate::signals::Signals;
use crate::spawn_error;
use crate::termination_log;
use crate::tree::{Process, Tree, new_mark};
use callers::Callers;
use census::{Census, Trouble};
use fresh_lists::Start;
use launcher_env::LauncherEnv;

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

/// Runs the command; returns the container's exit code.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("exec needs a command after --");
    };
    let signals = Signals::watch(&[SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let asked = match fresh_lists::written(&signals)? {
        Start::Workers(asked) => asked,
        Start::Never(exit) => return Ok(exit),
    };
    let children = Children::adopt()?;
    let mark = new_mark();
    let run_directory = RunDirectory::make(&mark);
    let mut command = Command::new(program);
    command.args(arguments);
    let binary = std::env::current_exe().context("cannot find this program's own file")?;
    let launcher_env = LauncherEnv {
        shim_directory: binary.parent().unwrap_or(Path::new("/")),
        workers: asked.unwrap_or_default(),
        root: getuid().is_root(),
        interface: launcher_env::interface(),
        rank_wrapper: ranks::wrapper().ok(),
    };
    command.envs(launcher_env.variables(|name| std::env::var_os(name)));
    command.env(env::EXEC_MARK, &mark);
    // Hydra would lay it over the workers' own.
    command.env_remove(env::SESSION_MARK);
    if let Some(directory) = &run_directory.path {
        command.env(env::RUN_DIR, directory);
    }
    let child = match children.spawn(&mut command) {
        Ok(child) => child,
        Err(error) => return Ok(cannot_run(program, &error, asked)),
    };
    let tree = Tree::new(child.process, env::EXEC_MARK, mark);
    let run = Run {
        child,
        tree,
        signals,
        run_directory,
        census: Census {
            records: Vec::new(),
            callers: Callers::default(),
            asked,
            counts_hosts: !is_off(env::CENSUS),
            watches_ranks: !is_off(env::RANK_WATCH),
        },
        stopped: None,
        stop_until: None,
    };
    Ok(run.conclude())
}

fn cannot_run(program: &OsStr, error: &std::io::Error, asked: Option<usize>) -> u8 {
    let (message, exit) = spawn_error::explain(program, error);
    eprintln!("muster-agent: {message}");
    let report = AgentReport {
        asked,
        ..AgentReport::new(RunVerdict::Failed, exit, message)
    };
    termination_log::write(&report.to_json());
    exit
}

fn is_off(name: &str) -> bool {
    settings::variable(name).is_some_and(|value| value.eq_ignore_ascii_case(env::OFF))
}

/// Where shims write; removed with the run.
struct RunDirectory {
    path: Option<PathBuf>,
    ours: bool,
    seen: Option<SystemTime>,
}

impl RunDirectory {
    /// The root file system may be read-only; somewhere there is room for small files. A container
    /// that was restarted may find its predecessor's directory, whose process had the same number.
    fn make(mark: &str) -> Self {
        let given = settings::variable(env::RUN_DIR).map(PathBuf::from);
        let name = format!("muster-{mark}");
        // Whoever sets TMPDIR removes what is left there when this program is killed.
        let temporary = std::env::temp_dir();
        let places = [
            &*temporary,
            Path::new("/tmp"),
            Path::new("/dev/shm"),
            Path::new("/var/tmp"),
        ];
        let places = places.map(|place| place.join(&name));
        let made = |path: &PathBuf| std::fs::create_dir(path).is_ok();
        let ours = given.is_none();
        let path = given.or_else(|| places.into_iter().find(made));
        if path.is_none() {
            eprintln!(
                "muster-agent: nowhere to write: mount an emptyDir on /tmp, or sessions are not seen"
            );
        }
        Self {
            path,
            ours,
            seen: None,
        }
    }

    /// New records, if there was any change since they were last read.
    fn read(&mut self) -> Option<Vec<SessionRecord>> {
        let path = self.path.as_ref()?;
        let changed = std::fs::metadata(path).and_then(|m| m.modified()).ok()?;
        // A change in the same tick of the clock would be missed; look once more a moment later.
        let settled = changed.elapsed().is_ok_and(|age| age > 2 * LOOK_INTERVAL);
        if self.seen == Some(changed) {
            return None;
        }
        self.seen = settled.then_some(changed);
        Some(SessionRecord::read_all(path))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if let (Some(path), true) = (&self.path, self.ours) {
            // Small, and gone with the container at the latest.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

struct Run {
    child: Child,
    tree: Tree,
    signals: Signals,
    run_directory: RunDirectory,
    census: Census,
    stopped: Option<i32>,
    stop_until: Option<Instant>,
}

impl Run {
    fn conclude(mut self) -> u8 {
        let ended_for = self.watch();
        if ended_for.is_some() || self.stop_until.is_some_and(|until| Instant::now() >= until) {
            self.tree.end(settings::grace().min(LAUNCHER_GRACE_MAX));
        }
        self.wait_for_leftovers();
        self.run_directory.seen = None;
        self.look();
        if self.stopped.is_none() {
            self.census.note_silent(shim_lives, answers::answers);
        }
        let ending = self.child.exit.ending();
        let code = ending.map_or(exit_code::WORKER_LOST, |ending| ending.shell_code());
        let report = self
            .census
            .report(code, self.stopped, ended_for, shim_lives);
        termination_log::write(&report.to_json());
        if report.exit != 0 {
            let verdict = report.verdict.as_str();
            eprintln!("muster-agent: {verdict}: {}", report.message);
        }
        report.exit
    }

    /// Until the command has ended, or must be ended; the trouble for which it must, if it is not
    /// that it was told to.
    fn watch(&mut self) -> Option<Trouble> {
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
            if self.stop_until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            let shims_due = shims_looked_at.elapsed() >= SHIM_LOOK_INTERVAL;
            if self.look() || shims_due {
                shims_looked_at = Instant::now();
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
            {
                let sentence = trouble.sentence();
                eprintln!("muster-agent: {sentence}; the launcher goes on, ending it");
                return Some(trouble.clone());
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
            let patience = settings::seconds(env::GRACE).unwrap_or(STOP_PATIENCE);
            self.stopped.get_or_insert(number);
            self.stop_until.get_or_insert(Instant::now() + patience);
            let members = self.tree.members();
            for member in members.iter().filter(|member| !is_shim(member)) {
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

/// Runs the same file as this process.
fn is_shim(process: &Process) -> bool {
    let file = |path: &str| {
        std::fs::metadata(path)
            .map(|file| (file.dev(), file.ino()))
            .ok()
    };
    let own = file("/proc/self/exe");
    own.is_some() && file(&format!("/proc/{}/exe", process.number)) == own
}

fn shim_lives(number: u32) -> bool {
    Process::read(number.cast_signed()).is_some_and(|process| !process.zombie)
}
