//! Decides what a job's status tells of its past: what pods prove now, and what was recorded when they proved it.
//! What is recorded stays until the job is started anew. No action depends on it, and it never causes a write of
//! the status.

mod attempts;
mod slowest;

use std::collections::BTreeMap;

use contract::milestone::Milestone;
use jiff::Timestamp;

use super::pods;
use super::situation::Situation;
use crate::history::{History, SKEW_MAX};
use crate::job::CleanUp;
use crate::observed::{Observed, Pod};

/// The past of the job, which was started at this time.
pub(super) fn of(situation: &Situation<'_>, started_at: Option<Timestamp>) -> History {
    let observed = situation.observed;
    let mut history = recorded(situation);
    let is_recorded = observed.recorded.outcome.is_some();
    if is_recorded {
        let is_cleaned = situation.is_clean && observed.job.lifecycle.clean_up != CleanUp::Nothing;
        if is_cleaned && history.milestones.contains_key(&Milestone::Ended) {
            let now = in_seconds(observed.now);
            history
                .milestones
                .entry(Milestone::CleanedUp)
                .or_insert(now);
        }
        return history;
    }
    let is_held = observed.job.lifecycle.suspended || observed.job.owner.deleting;
    let Some(started_at) = started_at.filter(|_| !is_held || situation.outcome.is_some()) else {
        return history;
    };
    let evidence = Evidence::of(observed, &history, in_seconds(started_at));
    if !history.milestones.contains_key(&Milestone::WorkersReady)
        && let Some(slowest) = slowest::of(situation, &evidence)
    {
        history.slowest = slowest;
    }
    attempts::add(observed, &evidence, &mut history.attempts);
    evidence.add(situation, &mut history.milestones);
    history
}

/// What was recorded of this start of the job.
fn recorded(situation: &Situation<'_>) -> History {
    let observed = situation.observed;
    let recorded = &observed.recorded;
    if recorded.suspended && !observed.job.lifecycle.suspended && recorded.outcome.is_none() {
        return History::default();
    }
    let mut history = recorded.history.clone();
    let latest = observed.now.checked_add(SKEW_MAX);
    let latest = latest.unwrap_or(Timestamp::MAX);
    history.milestones.retain(|_, at| *at <= latest);
    let has_next = observed.job.outlives_launcher() && situation.outcome.is_none();
    if has_next && history.milestones.contains_key(&Milestone::Ended) {
        for of_launcher in [
            Milestone::GatePassed,
            Milestone::RanksStarted,
            Milestone::Ended,
        ] {
            history.milestones.remove(&of_launcher);
        }
    }
    history
}

/// What exists and proves when the job got how far.
struct Evidence<'a> {
    /// When the job was started. Its pods may prove that it was earlier than anybody noted.
    admitted: Timestamp,
    /// The pods of all hosts, or the launcher where it has no workers; empty while one is missing.
    placed: Vec<&'a Pod>,
    /// The launcher's pods of this start, the oldest first.
    launchers: Vec<&'a Pod>,
    /// When the launcher's program began.
    launched: Option<Timestamp>,
    now: Timestamp,
}

impl<'a> Evidence<'a> {
    fn of(observed: &'a Observed, history: &History, started_at: Timestamp) -> Self {
        let has_workers = observed.job.worker_count() > 0;
        let workers: Vec<&Pod> = pods::workers(observed).collect();
        let known = history.milestones.get(&Milestone::Admitted).copied();
        let mut launchers: Vec<&Pod> = observed.launcher_pods.iter().collect();
        let made = match has_workers {
            true => &workers,
            false => &launchers,
        };
        let made = made.iter().filter(|pod| !pod.deleting);
        let made = made.map(|pod| pod.created_at).min().unwrap_or(started_at);
        let admitted = known.unwrap_or_else(|| started_at.min(made));
        // One that failed before a suspension tells of another start.
        launchers.retain(|pod| pod.created_at >= admitted);
        launchers.sort_by_key(|pod| pod.created_at);
        let begun = launchers.iter().filter_map(|pod| pod.start.begun_at);
        let launched = begun
            .filter(|at| is_credible(*at, admitted, observed.now))
            .min();
        let mut placed = match has_workers {
            true => workers,
            false => launchers.clone(),
        };
        let wanted = usize::try_from(observed.job.worker_count().max(1)).unwrap_or(usize::MAX);
        let is_whole = placed.len() >= wanted;
        // A worker that was replaced while the program ran has delayed no start.
        placed.retain(|pod| is_whole && launched.is_none_or(|at| pod.created_at <= at));
        Self {
            admitted,
            placed,
            launchers,
            launched,
            now: observed.now,
        }
    }

    /// Adds what is proved and not recorded.
    fn add(&self, situation: &Situation<'_>, to: &mut BTreeMap<Milestone, Timestamp>) {
        let observed = situation.observed;
        let ready = |pod: &Pod| pod.start.ready_at.filter(|_| pod.ready);
        // A container that was started again has its last start.
        let begun = |pod: &Pod| {
            let at = pod.start.begun_at?;
            Some(self.launched.map_or(at, |launched| at.min(launched)))
        };
        let has_workers = observed.job.worker_count() > 0;
        let of_pods = [
            (Milestone::Admitted, Some(self.admitted)),
            (
                Milestone::PodsCreated,
                self.last(|pod| Some(pod.created_at)),
            ),
            (
                Milestone::Scheduled,
                self.last(|pod| pod.start.scheduled_at),
            ),
            (Milestone::ImagesReady, self.last(begun)),
            (
                Milestone::WorkersReady,
                self.last(ready).filter(|_| has_workers),
            ),
        ];
        self.add_in_order(&of_pods, to);
        let of_launcher = [
            (Milestone::GatePassed, self.gate_passed(observed)),
            (Milestone::RanksStarted, self.ranks_started()),
        ];
        self.add_in_order(&of_launcher, to);
        if let Some(outcome) = &situation.outcome {
            // A node says when its container ended, and writes what it likes.
            let at = Some(outcome.at).filter(|at| self.believes(*at));
            let at = in_seconds(at.unwrap_or(self.now));
            to.entry(Milestone::Ended).or_insert(at);
        }
    }

    /// None happened before another one of the list, nor before the start, nor later than now.
    fn add_in_order(
        &self,
        proved: &[(Milestone, Option<Timestamp>)],
        to: &mut BTreeMap<Milestone, Timestamp>,
    ) {
        let mut earliest = self.admitted;
        for (milestone, at) in proved {
            let recorded = to.get(milestone).copied();
            // Clocks of nodes differ, and anybody may write a pod's status who may write pods.
            let at = at.filter(|at| self.believes(*at));
            let at = at.map(|at| at.min(self.now).max(earliest));
            // What must come before it may itself be said to be far ahead.
            let at = at.filter(|at| at.duration_since(self.now) <= SKEW_MAX);
            if let Some(at) = recorded.or(at) {
                to.insert(*milestone, at);
                earliest = earliest.max(at);
            }
        }
    }

    /// When it was true of the last pod; nothing if there is one of which it is not.
    fn last(&self, at: impl Fn(&Pod) -> Option<Timestamp>) -> Option<Timestamp> {
        let times: Option<Vec<Timestamp>> = self.placed.iter().map(|pod| at(pod)).collect();
        times?.into_iter().max()
    }

    /// The time may be true, with a clock that differs.
    fn believes(&self, at: Timestamp) -> bool {
        is_credible(at, self.admitted, self.now)
    }

    fn gate_passed(&self, observed: &Observed) -> Option<Timestamp> {
        observed.job.gate(&observed.site)?;
        let passed = self.launchers.iter();
        passed.filter_map(|pod| pod.start.initialized_at).min()
    }

    fn ranks_started(&self) -> Option<Timestamp> {
        let runs = self.launchers.iter().flat_map(|pod| &pod.runs);
        let ends = runs.filter_map(|run| run.end.as_ref());
        ends.filter_map(|end| end.ranks_started_at).min()
    }
}

/// Whether something may have happened at this time in a start that began at `admitted`.
fn is_credible(at: Timestamp, admitted: Timestamp, now: Timestamp) -> bool {
    at.duration_since(admitted) >= -SKEW_MAX && at.duration_since(now) <= SKEW_MAX
}

/// As precise as the status has the times that operators note.
fn in_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).expect("a timestamp's own seconds are in range")
}
