//! Numbers of jobs: how many there are in which state, how they ended, and how long the parts of their lives took.
//! Decides the labels; none of them is the name of a job or of a person.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::Reason;
use contract::reason::Stage;
use planner::job::Owner;
use planner::{Status, Verdict};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::Names;
use crate::memory::{Ending, Memory};

/// Pods carry their times in whole seconds, and some jobs wait for days.
const SECONDS: [f64; 15] = [
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0,
    43_200.0, 86_400.0,
];

/// Numbers of jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) created: Counter,
    successful: Counter,
    failed: Counter,
    info: Family<JobInfo, Gauge>,
    states: Family<State, Gauge>,
    waiting: Family<Waiting, Gauge>,
    workers: Family<Workers, Gauge>,
    finished: Family<Finished, Counter>,
    parts: Family<Part, Histogram, fn() -> Histogram>,
    /// What is shown of each job, by its UID: a deleted job cannot be asked.
    shown: Mutex<HashMap<String, Shown>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobInfo {
    launcher: String,
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    dialect: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Waiting {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Workers {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Finished {
    dialect: &'static str,
    result: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Part {
    dialect: &'static str,
    phase: &'static str,
}

/// What is shown of one job.
#[derive(Debug, Default)]
struct Shown {
    info: Option<JobInfo>,
    now: Option<Now>,
}

/// What is true of a job now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    dialect: &'static str,
    state: &'static str,
    /// Why it waits.
    reason: Option<Reason>,
    wanted: u32,
    ready: u32,
}

impl Now {
    /// A job of this dialect is not valid.
    pub(crate) fn invalid(dialect: &'static str) -> Self {
        Self {
            dialect,
            state: Reason::Invalid.as_str(),
            reason: Some(Reason::Invalid),
            wanted: 0,
            ready: 0,
        }
    }

    /// A job of this dialect has this status.
    pub(crate) fn new(dialect: &'static str, status: &Status) -> Self {
        let waits = |reason: &Reason| reason.stage() != Stage::Ended;
        let is_over = status.outcome.is_some();
        Self {
            dialect,
            state: status.phase.as_str(),
            reason: status.reason.filter(waits).filter(|_| !is_over),
            wanted: if is_over || status.suspended {
                0
            } else {
                status.wanted
            },
            ready: if is_over { 0 } else { status.ready },
        }
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            created: Counter::default(),
            successful: Counter::default(),
            failed: Counter::default(),
            info: Family::default(),
            states: Family::default(),
            waiting: Family::default(),
            workers: Family::default(),
            finished: Family::default(),
            parts: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            shown: Mutex::default(),
        }
    }
}

impl Jobs {
    pub(super) fn register(&self, names: &mut Names<'_>) {
        let totals = [
            ("created", &self.created),
            ("successful", &self.successful),
            ("failed", &self.failed),
        ];
        for (name, counter) in totals {
            let help = format!("Counts number of MPI jobs {name}");
            names.add(&format!("mpi_operator_jobs_{name}"), &help, counter);
        }
        names.add(
            "mpi_operator_job_info",
            "Information about MPI jobs",
            &self.info,
        );
        names.add(
            "muster_jobs",
            "Jobs, by their phase; invalid jobs have none",
            &self.states,
        );
        names.add(
            "muster_jobs_waiting",
            "Unfinished jobs that make no progress now, by the reason in their status",
            &self.waiting,
        );
        names.add(
            "muster_workers",
            "Workers of unfinished jobs: those that the jobs ask for, and those that are Ready",
            &self.workers,
        );
        names.add(
            "muster_jobs_finished",
            "Jobs that ended, by the reason in their status",
            &self.finished,
        );
        names.add(
            "muster_job_phase_seconds",
            "How long each part of the life of a job took, known when the job ends",
            &self.parts,
        );
    }

    /// A job has this launcher. A pass may still run when its job is deleted, and a series that it would
    /// show then would never go.
    pub(crate) fn show_launcher(&self, memory: &Memory, job: &Owner, launcher: &str) {
        let mut shown = self.shown();
        if memory.is_known(&job.uid) {
            let info = JobInfo {
                launcher: launcher.to_owned(),
                namespace: job.namespace.clone(),
            };
            self.info.get_or_create(&info).set(1);
            shown.entry(job.uid.clone()).or_default().info = Some(info);
        }
    }

    /// This is true of the job with this UID now.
    pub(crate) fn show(&self, memory: &Memory, job_uid: &str, now: Now) {
        let mut shown = self.shown();
        if memory.is_known(job_uid) {
            let shown = shown.entry(job_uid.to_owned()).or_default();
            let before = shown.now.replace(now);
            if before != Some(now) {
                if let Some(before) = before {
                    self.add(&before, -1);
                }
                self.add(&now, 1);
            }
        }
    }

    /// The job with this UID is gone.
    pub(crate) fn hide(&self, job_uid: &str) {
        let Some(Shown { info, now }) = self.shown().remove(job_uid) else {
            return;
        };
        if let Some(info) = info {
            self.info.remove(&info);
        }
        if let Some(now) = now {
            self.add(&now, -1);
        }
    }

    fn add(&self, now: &Now, sign: i64) {
        let Now {
            dialect,
            state,
            reason,
            wanted,
            ready,
        } = *now;
        self.states
            .get_or_create(&State { dialect, state })
            .inc_by(sign);
        if let Some(reason) = reason {
            let reason = reason.as_str();
            self.waiting.get_or_create(&Waiting { reason }).inc_by(sign);
        }
        for (state, count) in [("wanted", wanted), ("ready", ready)] {
            self.workers
                .get_or_create(&Workers { state })
                .inc_by(sign * i64::from(count));
        }
    }

    /// A job of this dialect ended.
    pub(crate) fn count_end(
        &self,
        dialect: &'static str,
        verdict: &Verdict,
        ending: Option<Ending>,
    ) {
        let (result, total) = match verdict {
            Verdict::Succeeded => ("succeeded", &self.successful),
            Verdict::Failed { .. } => ("failed", &self.failed),
        };
        total.inc();
        let (reason, parts) = match ending {
            Some(Ending { reason, parts }) => (reason, parts),
            None => (None, Vec::new()),
        };
        let finished = Finished {
            dialect,
            result,
            reason: reason.map_or("", Reason::as_str),
        };
        self.finished.get_or_create(&finished).inc();
        for (part, length) in parts {
            let part = Part {
                dialect,
                phase: part.as_str(),
            };
            self.parts
                .get_or_create(&part)
                .observe(length.as_secs_f64());
        }
    }

    fn shown(&self) -> MutexGuard<'_, HashMap<String, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
