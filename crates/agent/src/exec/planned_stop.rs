//! A stop that is announced: a worker, or the launcher itself, has to leave its node. Decides what the program's
//! ranks are told, how long they have, and what the report says; must not know what follows.

use std::time::{Duration, Instant};

use contract::agent_report::{AgentReport, RunVerdict};
use contract::{env, exit_code};
use rustix::process::Signal;

use crate::tree::Process;
use crate::{gate, ranks, settings};

/// How long the workers are called; who does not answer by then has lost its ranks anyway.
const CALL_MAX: Duration = Duration::from_secs(5);

/// What the job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StopPolicy {
    signal: u8,
    grace: Duration,
}

impl StopPolicy {
    /// What the operator set; none where ranks are told nothing.
    pub(super) fn of_environment() -> Option<Self> {
        let signal = settings::variable(env::STOP_SIGNAL)?.trim().parse().ok()?;
        let grace = settings::seconds(env::STOP_GRACE)?;
        Some(Self { signal, grace })
    }

    /// Tells all ranks of the attempt with this mark, and those among these processes of the launcher's pod.
    /// Returns by when they must have ended.
    pub(super) fn tell_ranks(self, mark: &str, own: Vec<Process>) -> Instant {
        let number = self.signal.into();
        if let Some(signal) = Signal::from_named_raw(number) {
            for rank in ranks::stopped_by(own, number, false) {
                rank.signal(signal);
            }
        }
        let (signal, mark) = (self.signal, mark.to_owned());
        // Meanwhile the launcher is watched. Without a thread, the ranks are told nothing and are ended.
        let telling = std::thread::Builder::new()
            .spawn(move || gate::tell_ranks(signal, mark, CALL_MAX))
            .map(drop);
        match telling {
            Ok(()) => Instant::now() + self.grace,
            Err(_) => Instant::now(),
        }
    }
}

/// Workers that have to leave, for which the program is stopped.
pub(super) struct Leave {
    workers: Vec<String>,
    policy: StopPolicy,
    begun: Instant,
    pub(super) until: Instant,
}

impl Leave {
    /// Tells the program to stop.
    pub(super) fn begin(
        workers: Vec<String>,
        policy: StopPolicy,
        mark: &str,
        own: Vec<Process>,
    ) -> Self {
        let leave = Self {
            workers,
            policy,
            begun: Instant::now(),
            until: policy.tell_ranks(mark, own),
        };
        eprintln!(
            "muster-agent: {}; the ranks get signal {} and have {} s to end",
            leave.cause(),
            policy.signal,
            policy.grace.as_secs()
        );
        leave
    }

    /// The report of an attempt that was stopped for it: how the program ended by then tells nothing.
    pub(super) fn report(&self, report: AgentReport) -> AgentReport {
        let message = format!(
            "{}; the agent sent signal {} to the program, which ended {:.1} s later",
            self.cause(),
            self.policy.signal,
            self.begun.elapsed().as_secs_f64()
        );
        AgentReport {
            verdict: RunVerdict::WorkerLeft,
            exit: exit_code::WORKER_LOST,
            signal: None,
            lost: self.workers.clone(),
            message,
            ..report
        }
    }

    fn cause(&self) -> String {
        match self.workers.as_slice() {
            [worker] => format!("worker {worker} was told to end"),
            [first, others @ ..] => {
                let count = others.len();
                format!("worker {first} and {count} others were told to end")
            }
            [] => "a worker was told to end".to_owned(),
        }
    }
}
