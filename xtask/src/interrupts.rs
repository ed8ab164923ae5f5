//! What Ctrl-C and a polite kill do: they end the programs that run now, so that whoever started them
//! ends in order and cleans up. A second one ends this program on the spot. Must not know what the
//! programs are for.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Watches for signals and runs programs that end with them.
#[derive(Clone, Default)]
pub(crate) struct Interrupts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The signal that came.
    signal: Option<i32>,
    /// The process groups of the programs that run.
    running: Vec<Pid>,
}

impl Interrupts {
    /// From here on, signals no longer end this program by themselves.
    pub(crate) fn watch() -> Result<Self> {
        let interrupts = Self::default();
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot watch for signals")?;
        let watched = interrupts.clone();
        thread::spawn(move || {
            for signal in signals.forever() {
                watched.interrupt(signal);
            }
        });
        Ok(interrupts)
    }

    fn interrupt(&self, signal: i32) {
        let mut state = self.state();
        if state.signal.replace(signal).is_some() {
            state.signal_running(Signal::KILL);
            eprintln!("stopped at once; `cargo xtask cluster down --name …` ends a cluster");
            std::process::exit(exit_code(signal));
        }
        eprintln!("stopping and cleaning up; once more to stop at once");
        state.signal_running(Signal::TERM);
    }

    /// The exit code to end with, if a signal came.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.state().signal.map(exit_code)
    }

    /// Ends every program that runs now, as a signal would.
    pub(crate) fn end_running(&self) {
        self.state().signal_running(Signal::TERM);
    }

    /// Runs a program to its end and hands over each line of its stdout. Its process group is its
    /// own, so that ending it also ends what it started.
    pub(crate) fn run(
        &self,
        command: &mut Command,
        mut on_line: impl FnMut(&str),
    ) -> Result<ExitStatus> {
        let mut child = self.start(command.stdout(Stdio::piped()))?;
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| cannot_run(command))?;
            on_line(&String::from_utf8_lossy(&line));
        }
        self.wait(command, child)
    }

    /// The same for a program whose output goes straight to where the command sends it.
    pub(crate) fn run_shown(&self, command: &mut Command) -> Result<ExitStatus> {
        let child = self.start(command)?;
        self.wait(command, child)
    }

    fn start(&self, command: &mut Command) -> Result<Child> {
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| cannot_run(command))?;
        let mut state = self.state();
        state.running.push(Pid::from_child(&child));
        if state.signal.is_some() {
            state.signal_running(Signal::TERM); // it came before there was anything to end
        }
        Ok(child)
    }

    fn wait(&self, command: &Command, mut child: Child) -> Result<ExitStatus> {
        let status = child.wait().with_context(|| cannot_run(command));
        let ended = Pid::from_child(&child);
        self.state().running.retain(|group| *group != ended);
        status
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each field is set in one step, so a panic elsewhere cannot have left them halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn signal_running(&self, signal: Signal) {
        for group in &self.running {
            // The only way to fail is that it has ended already.
            let _ = kill_process_group(*group, signal);
        }
    }
}

fn cannot_run(command: &Command) -> String {
    format!("cannot run `{}`", command.get_program().display())
}

/// As a shell reports it.
fn exit_code(signal: i32) -> i32 {
    128 + signal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_output_are_handed_over_and_the_exit_code_is_told() {
        let mut lines = Vec::new();
        let status = Interrupts::default()
            .run(
                Command::new("sh").args(["-c", "echo one; echo two; exit 3"]),
                |line| lines.push(line.to_owned()),
            )
            .expect("sh is there");
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_signal_ends_the_program_that_runs_and_its_children() {
        let interrupts = Interrupts::default();
        let mut lines = 0;
        // The reader only comes to its end when the background child is gone too.
        let script = "(echo started; exec tail -f /dev/null) & wait";
        let status = interrupts
            .run(Command::new("sh").args(["-c", script]), |_| {
                lines += 1;
                interrupts.interrupt(SIGTERM);
            })
            .expect("sh is there");
        assert_eq!(lines, 1);
        assert!(!status.success());
        assert_eq!(interrupts.exit_code(), Some(143));
    }

    #[test]
    fn a_program_started_after_the_signal_is_ended_at_once() {
        let interrupts = Interrupts::default();
        interrupts.interrupt(SIGINT);
        let status = interrupts
            .run(Command::new("tail").args(["-f", "/dev/null"]), |_| {})
            .expect("tail is there");
        assert!(!status.success());
    }
}
