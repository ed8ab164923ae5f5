//! `gate`: the launcher's init container. Holds the launcher until every worker has *answered*; a bare
//! connection proves nothing. Decides when all workers are ready and when to give up, and writes host
//! lists for the launcher; must not know what the launcher does with them. `exec` waits in the same way,
//! since no init containers run when a container is restarted in place.

mod probe;
mod probe_state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use contract::agent_report::{AgentReport, RunVerdict};
use contract::{env, exit_code};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::hosts::{Host, HostsFile, Listing};
use crate::identity::Client;
use crate::signals::Signals;
use crate::termination_log;
use crate::{host_lists, settings};
use probe::{Probe, ports_words};
use probe_state::{Hopeless, Probers, SILENCE_FACTOR, Workers};

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
const PROGRESS_MIN: Duration = Duration::from_secs(1);
const SSH_PATIENCE_DEFAULT: Duration = Duration::from_secs(60);
const NAMED_MAX: usize = 5;

/// Waits until all workers have answered. Returns the container's exit code.
pub(crate) fn run() -> Result<u8> {
    let signals = Signals::watch(&[SIGTERM, SIGINT])?;
    let patience = settings::seconds(env::GATE_TIMEOUT).filter(|time| !time.is_zero());
    let mut wait = Wait::new(patience, Progress::of_gate())?;
    match wait.until_open(Some(&signals))? {
        End::AllAnswered(workers) => {
            let (all, seconds) = (workers.len(), wait.begun.elapsed().as_secs_f64());
            println!("all {all} workers have answered after {seconds:.1} s");
            host_lists::write_as_asked(&workers)?;
            Ok(0)
        }
        End::LetGo(workers) => {
            host_lists::write_as_asked(&workers)?;
            Ok(0)
        }
        End::Deadline => {
            let exit = exit_code::GATE_DEADLINE;
            Ok(told(&wait.given_up(RunVerdict::GateDeadline, exit)))
        }
        End::Ended(workers) => Ok(told(&wait.given_up_ended(&workers))),
        End::Signal(signal) => Ok(128 | u8::try_from(signal & 0x7f).unwrap_or_default()),
    }
}

/// Tells people and the operator why nothing starts. Returns the exit code.
pub(crate) fn told(report: &AgentReport) -> u8 {
    eprintln!("muster-agent: {}", report.message);
    termination_log::write(&report.to_json());
    report.exit
}

/// A signal that came and asks us to end. Others are for a command that runs.
pub(crate) fn signal_to_end(signals: &Signals) -> Option<i32> {
    let ends = |signal: &i32| ![SIGUSR1, SIGUSR2].contains(signal);
    signals.take().into_iter().find(ends)
}

/// Sends a signal to all ranks of the attempt with this mark, on all workers that answer in this time.
pub(crate) fn tell_ranks(signal: u8, mark: String, time: Duration) -> Result<()> {
    let probe = Probe::Tell(Client::new()?, signal, mark);
    let progress = Progress {
        from: Instant::now() + time,
        ..Progress::of_exec()
    };
    let mut wait = Wait::with(probe, Some(time), progress)?;
    wait.until_open(None)?;
    Ok(())
}

/// Why the wait ended.
pub(crate) enum End {
    AllAnswered(Vec<Host>),
    /// Some will not answer, and the reason may be our probe: the launcher starts without their answer.
    LetGo(Vec<Host>),
    /// These workers have ended, so that they never will answer.
    Ended(Vec<String>),
    Deadline,
    Signal(i32),
}

/// How long the workers of an attempt that is over have.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// To be there: one that was lost may be replaced.
    pub(crate) absent: Duration,
    /// To end what is left, each from when it first answers that.
    pub(crate) busy: Duration,
}

/// Waiting for all workers to answer.
pub(crate) struct Wait {
    begun: Instant,
    probe: Arc<Probe>,
    file: HostsFile,
    probers: Probers,
    workers: Workers,
    /// When the list was last read.
    read: Option<Instant>,
    /// The number of workers, once it is known.
    asked: Option<usize>,
    /// How long all workers have to answer; no limit if absent.
    patience: Option<Duration>,
    /// How long one may answer that it is busy; no limit if absent.
    busy_patience: Option<Duration>,
    /// How long SSH workers may refuse.
    ssh_patience: Duration,
    progress: Progress,
}

impl Wait {
    pub(crate) fn new(patience: Option<Duration>, progress: Progress) -> Result<Self> {
        Self::with(Probe::of_environment()?, patience, progress)
    }

    /// Until nothing is left on any worker of the attempt with this mark, either.
    pub(crate) fn after(mark: &str, patience: Patience, progress: Progress) -> Result<Self> {
        let probe = Probe::After(Client::new()?, mark.to_owned());
        let mut wait = Self::with(probe, Some(patience.absent), progress)?;
        wait.busy_patience = Some(patience.busy);
        Ok(wait)
    }

    fn with(probe: Probe, patience: Option<Duration>, progress: Progress) -> Result<Self> {
        let probe = Arc::new(probe);
        let ssh_patience = settings::seconds(env::SSH_PATIENCE);
        Ok(Self {
            begun: Instant::now(),
            probers: Probers::new(probe.clone()),
            workers: Workers::default(),
            read: None,
            probe,
            file: HostsFile::of_environment(),
            asked: None,
            patience,
            busy_patience: None,
            ssh_patience: ssh_patience.unwrap_or(SSH_PATIENCE_DEFAULT),
            progress,
        })
    }

    /// Gives up SSH workers that refuse or fail before this time is over.
    pub(crate) fn let_go_of_ssh_within(&mut self, time: Duration) {
        let patience = time / (SILENCE_FACTOR + 1);
        self.ssh_patience = self.ssh_patience.min(patience);
    }

    /// The number of workers, as last read.
    pub(crate) fn asked(&self) -> Option<usize> {
        self.asked
    }

    /// `signals` end the wait, too; they are then taken.
    pub(crate) fn until_open(&mut self, signals: Option<&Signals>) -> Result<End> {
        loop {
            // Not for every answer: the list may be long.
            if self.read.is_none_or(|read| read.elapsed() >= LOOK_INTERVAL) {
                let Listing { hosts, workers } = self.file.listing();
                self.asked = workers;
                let ended = hosts.iter().filter(|host| host.has_ended());
                let ended: Vec<_> = ended.map(|host| host.name.clone()).collect();
                if !ended.is_empty() {
                    return Ok(End::Ended(ended));
                }
                self.workers.list(hosts);
                self.read = Some(Instant::now());
            }
            let answers = self.workers.answers();
            if self.asked.is_some_and(|asked| answers >= asked) {
                return Ok(End::AllAnswered(self.workers.answered()));
            }
            let is_late = self.patience.is_some_and(|all| self.begun.elapsed() >= all);
            let is_over = match self.busy_patience {
                None => is_late,
                Some(busy) => (is_late && !self.is_busy()) || self.workers.is_busy_for(busy),
            };
            if is_over {
                return Ok(End::Deadline);
            }
            if let Some(line) = self.reason_to_let_go() {
                eprintln!("muster-agent: {line}");
                return Ok(End::LetGo(self.workers.listed()));
            }
            self.progress.tell(&self.workers, self.asked);
            self.probers.probe_due(&mut self.workers)?;
            self.probers.wait(&mut self.workers, LOOK_INTERVAL);
            if let Some(signal) = signals.and_then(signal_to_end) {
                return Ok(End::Signal(signal));
            }
        }
    }

    /// A worker has not ended yet what is left there.
    pub(crate) fn is_busy(&self) -> bool {
        self.workers.is_busy_for(Duration::ZERO)
    }

    fn reason_to_let_go(&self) -> Option<String> {
        let (Probe::Ssh { ports }, Some(asked)) = (&*self.probe, self.asked) else {
            return None;
        };
        let workers = &self.workers;
        let hopeless = workers.hopeless(self.ssh_patience, asked)?;
        let reason = workers.reason.as_deref();
        Some(let_go(&hopeless, ports, self.ssh_patience, reason))
    }

    /// The report that these workers are missing.
    pub(crate) fn given_up(&self, verdict: RunVerdict, exit: u8) -> AgentReport {
        let workers = &self.workers;
        let message = format!(
            "gave up after {} s {}",
            self.begun.elapsed().as_secs(),
            waiting_for(workers, self.asked)
        );
        self.report(workers.missing(), AgentReport::new(verdict, exit, message))
    }

    /// The report that these workers have ended.
    pub(crate) fn given_up_ended(&self, workers: &[String]) -> AgentReport {
        let (names, exit) = (named(workers).join(", "), exit_code::WORKER_LOST);
        let message = match workers {
            [_] => format!("worker {names} has ended, and no other follows it"),
            _ => format!("workers {names} have ended, and no others follow them"),
        };
        let report = AgentReport::new(RunVerdict::WorkerLost, exit, message);
        self.report(workers.to_vec(), report)
    }

    fn report(&self, lost: Vec<String>, report: AgentReport) -> AgentReport {
        AgentReport {
            hosts: self.workers.answers(),
            asked: self.asked,
            lost,
            ..report
        }
    }
}

/// "waiting for 3 of 64 workers: …", when something changed and every few seconds.
pub(crate) struct Progress {
    /// Silent before this time: most workers answer at once.
    from: Instant,
    to_stderr: bool,
    told: Option<(Instant, usize)>,
}

impl Progress {
    /// The gate has its output for itself.
    fn of_gate() -> Self {
        Self {
            from: Instant::now(),
            to_stderr: false,
            told: None,
        }
    }

    /// The output of the command will follow on the same streams.
    pub(crate) fn of_exec() -> Self {
        Self {
            from: Instant::now() + PROGRESS_MIN,
            to_stderr: true,
            told: None,
        }
    }

    fn tell(&mut self, workers: &Workers, asked: Option<usize>) {
        let now = Instant::now();
        let heard_of = workers.answers();
        let due = self.told.is_none_or(|(when, before)| {
            let since = now.duration_since(when);
            since >= PROGRESS_INTERVAL || (heard_of != before && since >= PROGRESS_MIN)
        });
        if !due || now < self.from {
            return;
        }
        self.told = Some((now, heard_of));
        let line = waiting_for(workers, asked);
        if self.to_stderr {
            eprintln!("muster-agent: {line}");
        } else {
            println!("{line}");
        }
    }
}

/// The first few, and how many more there are.
fn named(names: &[String]) -> Vec<String> {
    let mut words: Vec<_> = names.iter().take(NAMED_MAX).cloned().collect();
    if names.len() > NAMED_MAX {
        words.push(format!("and {} more", names.len() - NAMED_MAX));
    }
    words
}

fn waiting_for(workers: &Workers, asked: Option<usize>) -> String {
    let Some(asked) = asked else {
        return "waiting for the operator to publish the list of workers".into();
    };
    let open = asked.saturating_sub(workers.answers());
    let mut words = named(&workers.missing());
    let unlisted = asked.saturating_sub(workers.known());
    if unlisted > 0 {
        words.push(format!("{unlisted} without an address yet"));
    }
    let line = format!(
        "waiting for {open} of {asked} workers: {}",
        words.join(", ")
    );
    match &workers.reason {
        Some(reason) => format!("{line} (last heard: {reason})"),
        None => line,
    }
}

/// We may not know the port of an image's sshd, and a NetworkPolicy may block our probes. The gate must not
/// fail jobs that would run without it.
fn let_go(hopeless: &Hopeless, ports: &[u16], patience: Duration, reason: Option<&str>) -> String {
    let ports = ports_words(ports);
    let mut sentences = Vec::new();
    if !hopeless.refusing.is_empty() {
        sentences.push(format!(
            "{} refused every connection on {ports} for {} s: no sshd listens there",
            named(&hopeless.refusing).join(", "),
            patience.as_secs()
        ));
    }
    if !hopeless.silent.is_empty() {
        sentences.push(format!(
            "{} gave no SSH banner on {ports} for {} s (last heard: {}): a NetworkPolicy keeps the \
             launcher away, or what listens there is not an sshd",
            named(&hopeless.silent).join(", "),
            (patience * SILENCE_FACTOR).as_secs(),
            reason.unwrap_or("nothing")
        ));
    }
    format!(
        "{}. Starting the launcher anyway; if sshd listens on another port, set \
         spec.muster.sshPort",
        sentences.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> Workers {
        let mut workers = Workers::default();
        let lines = (0..count).map(|n| format!("w{n} 10.0.0.{n}\n"));
        workers.list(crate::hosts::parse(&lines.collect::<String>()));
        workers
    }

    #[test]
    fn progress_names_some_and_counts_the_rest() {
        let mut workers = workers(7);
        assert_eq!(
            waiting_for(&workers, Some(9)),
            "waiting for 9 of 9 workers: w0, w1, w2, w3, w4, and 2 more, \
             2 without an address yet"
        );
        workers.reason = Some("w1: connection refused".into());
        assert!(waiting_for(&workers, Some(7)).ends_with("(last heard: w1: connection refused)"));
    }

    #[test]
    fn without_the_number_of_workers_the_list_is_what_is_missing() {
        let line = waiting_for(&workers(1), None);
        assert!(line.contains("the list of workers"), "{line}");
    }

    #[test]
    fn letting_go_says_who_and_what_to_set() {
        let refusing = Hopeless {
            refusing: vec!["w0".into(), "w1".into()],
            silent: vec![],
        };
        let patience = Duration::from_secs(60);
        let line = let_go(&refusing, &[22, 2222], patience, None);
        assert!(
            line.starts_with("w0, w1 refused every connection on ports 22 and 2222 for 60 s"),
            "{line}"
        );
        assert!(line.ends_with("set spec.muster.sshPort"), "{line}");
        let both = Hopeless {
            silent: vec!["w2".into()],
            ..refusing
        };
        let line = let_go(&both, &[22], patience, Some("w2: port 22: timed out"));
        let silent =
            "w2 gave no SSH banner on port 22 for 180 s (last heard: w2: port 22: timed out)";
        assert!(line.contains(silent), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}
