//! What the sessions say about a run. Decides whether it went wrong although the launcher goes on or
//! says 0, and the verdict at its end. Pure; must not know files, processes or clocks.
//!
//! Only sessions of a launcher's own daemon can contradict the launcher: what other commands return
//! (a test of Horovod's, `hostname`) is their caller's business.

mod trouble;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use contract::agent_report::{AgentReport, RunVerdict};
use contract::exit_code;

use super::callers::Callers;
use crate::caller::Caller;
use crate::frame::{Ending, RankState};
use crate::session_record::{SessionRecord, State};
pub(super) use trouble::Trouble;
use trouble::{blame, failed_rank, is_own_doing, tells_of_another, trouble_of};

/// Ranks that die of another's failure do so within this time of it, or later.
const ECHO_MS: u64 = 700;

/// What is known of a run.
#[derive(Clone)]
pub(super) struct Census {
    pub(super) records: Vec<SessionRecord>,
    /// Of those records, and of such as are there no more.
    pub(super) callers: Callers,
    pub(super) asked: Option<usize>,
    /// Fewer hosts than asked for is a failure.
    pub(super) counts_hosts: bool,
    /// A rank's failure is the run's.
    pub(super) watches_ranks: bool,
    /// Launchers end ranks with SIGKILL, also those that would ask them first.
    pub(super) kills_at_once: bool,
}

impl Census {
    /// The trouble that explains the others, if there is any, and whose it is. What has become of
    /// the sessions of a launcher that has ended is its caller's business: it may try again.
    pub(super) fn trouble(
        &self,
        shim_lives: impl Fn(u32) -> bool,
    ) -> Option<(Trouble, Option<Caller>)> {
        let callers: BTreeSet<_> = self.records.iter().map(|record| record.caller).collect();
        let living = callers
            .into_iter()
            .filter(|caller| self.callers.lives(*caller));
        let troubles = living.filter_map(|caller| {
            let own = self.only(|record| record.caller == caller);
            Some((own.trouble_of_one(&shim_lives)?, caller))
        });
        troubles.min_by_key(|(trouble, _)| trouble.weight())
    }

    /// As if there were no other sessions than those.
    fn only(&self, chosen: impl Fn(&SessionRecord) -> bool) -> Cow<'_, Self> {
        if self.records.iter().all(&chosen) {
            return Cow::Borrowed(self);
        }
        let records = self.records.iter().filter(|record| chosen(record));
        Cow::Owned(Self {
            records: records.cloned().collect(),
            callers: self.callers.clone(),
            ..*self
        })
    }

    fn trouble_of_one(&self, shim_lives: impl Fn(u32) -> bool) -> Option<Trouble> {
        let ranks = match self.first_failed() {
            Some(first) => vec![first],
            None => self.failed_ranks(),
        };
        let sessions = self.troubles(shim_lives);
        let all = sessions.chain(ranks).chain(self.vanished());
        all.min_by_key(Trouble::weight)
    }

    /// Only while the launcher runs: at the end of a good run all ranks are gone.
    fn vanished(&self) -> Option<Trouble> {
        let any = |state| {
            let mut with_ranks = self.records.iter().filter(|_| self.watches_ranks);
            with_ranks.find_map(|record| {
                let rank = record.ranks.iter().find(|(_, seen)| **seen == state)?;
                Some((record.host.clone(), *rank.0))
            })
        };
        any(RankState::InMpi)?;
        let (host, rank) = any(RankState::Vanished)?;
        Some(Trouble::Vanished { host, rank })
    }

    /// A part of the program runs on a worker.
    pub(super) fn runs(&self) -> bool {
        let mut records = self.records.iter();
        records.any(|record| record.state == State::Started)
    }

    /// Workers that were told to end while they run a part of the program.
    pub(super) fn leaving(&self) -> Vec<String> {
        let leaving = self.records.iter().filter(|record| {
            let runs = record.is_leaving && record.state == State::Started;
            runs && self.callers.lives(record.caller)
        });
        let hosts: BTreeSet<_> = leaving.map(|record| record.host.clone()).collect();
        hosts.into_iter().collect()
    }

    fn troubles(&self, shim_lives: impl Fn(u32) -> bool) -> impl Iterator<Item = Trouble> {
        let daemons = self.records.iter().filter(|record| record.daemon.is_some());
        let (mut troubles, mut gone) = (Vec::new(), Vec::new());
        for trouble in daemons.filter_map(|record| trouble_of(record, &shim_lives)) {
            match trouble {
                Trouble::ShimGone { hosts } => gone.extend(hosts),
                other => troubles.push(other),
            }
        }
        let gone = (!gone.is_empty()).then_some(Trouble::ShimGone { hosts: gone });
        troubles.into_iter().chain(gone)
    }

    /// A worker whose shim was killed may be the one for which all of them were: it does not answer
    /// any more.
    pub(super) fn note_silent(
        &mut self,
        shim_lives: impl Fn(u32) -> bool,
        answers: impl Fn(&str) -> bool,
    ) {
        for record in &mut self.records {
            let open = matches!(record.state, State::Calling | State::Started);
            let cut = record.daemon.is_some() && open && !shim_lives(record.shim);
            if cut && !answers(&record.host) {
                record.state = State::Lost("it does not answer any more".to_owned());
            }
        }
    }

    /// What a launcher ended of by itself.
    fn cause_of(&self, code: u8, shim_lives: impl Fn(u32) -> bool) -> Option<Trouble> {
        let explains = |trouble: &Trouble| code == 0 || trouble.explains(code);
        let first = self.first_failed().filter(|first| {
            let mut records = self.rank_records();
            let is_cause = |record: &SessionRecord| {
                self.is_own_doing(first, record) || tells_of_another(record, code)
            };
            explains(first) || records.any(is_cause)
        });
        let ranks = match first {
            Some(first) => vec![first],
            None => self.failed_ranks().into_iter().filter(explains).collect(),
        };
        let sessions = self.troubles(shim_lives).filter(explains);
        sessions.chain(ranks).min_by_key(Trouble::weight)
    }

    /// Of all ranks that failed, the one that can be blamed: what cannot be the others' doing or the
    /// launcher's, else the first of which the launcher's pod heard.
    fn first_failed(&self) -> Option<Trouble> {
        let failed = self.rank_records().flat_map(|record| {
            let failed = record.failed.iter();
            failed.filter_map(move |failed| {
                let state = *record.ranks.get(&failed.rank)?;
                Some((failed, record, failed_rank(record, failed.rank, state)?))
            })
        });
        let failed: Vec<_> = failed.collect();
        let first = failed.iter().map(|(failed, ..)| failed.at_ms).min()?;
        let early = failed
            .into_iter()
            .filter(|(failed, ..)| failed.at_ms <= first.saturating_add(ECHO_MS));
        let blamed = early.min_by_key(|(failed, record, trouble)| {
            (self.blame(trouble, record), failed.at_ms, failed.rank)
        });
        blamed.map(|(.., trouble)| trouble)
    }

    fn is_own_doing(&self, trouble: &Trouble, record: &SessionRecord) -> bool {
        is_own_doing(trouble, record, self.kills_at_once)
    }

    fn blame(&self, trouble: &Trouble, record: &SessionRecord) -> u8 {
        blame(trouble, record, self.kills_at_once)
    }

    fn failed_ranks(&self) -> Vec<Trouble> {
        let ranks = self.rank_records().flat_map(|record| {
            let ranks = record.ranks.iter();
            ranks.filter_map(move |(rank, state)| failed_rank(record, *rank, *state))
        });
        ranks.collect()
    }

    fn rank_records(&self) -> impl Iterator<Item = &SessionRecord> {
        let records = self.records.iter().filter(|_| self.watches_ranks);
        records.filter(|record| record.daemon.is_some())
    }

    /// Hosts on which something was started: daemons if there were any, else any command.
    fn hosts(&self) -> BTreeSet<&str> {
        let started = |record: &&SessionRecord| {
            !matches!(record.state, State::Calling | State::Unreachable(_))
        };
        let any_daemon = self.records.iter().any(|record| record.daemon.is_some());
        self.records
            .iter()
            .filter(started)
            .filter(|record| record.daemon.is_some() || !any_daemon)
            .map(|record| record.host.as_str())
            .collect()
    }

    /// Of the last launchers. A host is left out where it is not certain how many there were.
    fn ranks_per_host(&self) -> BTreeMap<String, u32> {
        let mut counts: BTreeMap<String, Option<u32>> = BTreeMap::new();
        let last = |record: &&SessionRecord| self.callers.is_last(record.caller);
        let with_ranks = self.records.iter().filter(last);
        for record in with_ranks.filter(|record| !record.ranks.is_empty()) {
            let count = counts.entry(record.host.clone()).or_insert(Some(0));
            *count = count.zip(record.rank_count).map(|(sum, more)| sum + more);
        }
        let certain = |(host, count): (_, Option<_>)| Some((host, count?));
        counts.into_iter().filter_map(certain).collect()
    }

    /// The end of it all. `ended_for`: why we ended a launcher that went on regardless.
    pub(super) fn report(
        &self,
        code: u8,
        stopped: Option<i32>,
        ended_for: Option<Trouble>,
        shim_lives: impl Fn(u32) -> bool,
    ) -> AgentReport {
        let hosts = self.hosts().len();
        let too_few = self.counts_hosts && self.asked.is_some_and(|asked| hosts < asked);
        let ended_by_us = ended_for.is_some();
        // A script that says 0 in the end has seen an earlier launcher fail, and has gone on.
        let mut judged_by = self.only(|record| self.callers.is_last(record.caller));
        let mut trouble = ended_for.or_else(|| judged_by.cause_of(code, &shim_lives));
        if trouble.is_none() && code != 0 {
            judged_by = Cow::Borrowed(self);
            trouble = self.cause_of(code, &shim_lives);
        }
        let (verdict, exit, message) = match (stopped, &trouble) {
            (Some(signal), _) => {
                let by_signal = 128 | u8::try_from(signal & 0x7f).unwrap_or_default();
                let exit = if code == 0 { by_signal } else { code };
                (
                    RunVerdict::Stopped,
                    exit,
                    format!("ended by signal {signal}"),
                )
            }
            (None, Some(trouble)) => judged(code, trouble, ended_by_us),
            (None, _) if code == 0 && too_few => {
                let asked = self.asked.unwrap_or_default();
                let message = format!(
                    "the launcher exited with 0, but only {hosts} of {asked} workers took part: \
                     the launcher did not find its list of hosts, or was not asked to use it"
                );
                (
                    RunVerdict::RanksNotDistributed,
                    exit_code::NOT_DISTRIBUTED,
                    message,
                )
            }
            (None, _) if code == 0 => (RunVerdict::Succeeded, 0, String::new()),
            (None, _) => {
                let message = format!("the launcher exited with {code}");
                (RunVerdict::Failed, code, message)
            }
        };
        let signal = match &trouble {
            Some(Trouble::Rank {
                ending: Ending::Signal(signal),
                ..
            }) if verdict == RunVerdict::RankFailed => Some(*signal),
            _ => None,
        };
        AgentReport {
            signal,
            hosts,
            asked: self.asked,
            ranks_per_host: self.ranks_per_host(),
            lost: judged_by.lost_hosts(verdict, trouble.as_ref()),
            ..AgentReport::new(verdict, exit, message)
        }
    }

    fn lost_hosts(&self, verdict: RunVerdict, trouble: Option<&Trouble>) -> Vec<String> {
        if !matches!(
            verdict,
            RunVerdict::WorkerLost | RunVerdict::WorkerUnreachable
        ) {
            return Vec::new();
        }
        let lost = self.records.iter().filter(|record| {
            record.daemon.is_some()
                && matches!(record.state, State::Lost(_) | State::Unreachable(_))
        });
        let mut hosts: BTreeSet<_> = lost.map(|record| record.host.clone()).collect();
        match trouble {
            Some(Trouble::Daemon { host, .. }) => hosts.extend([host.clone()]),
            Some(Trouble::ShimGone { hosts: gone }) => hosts.extend(gone.iter().cloned()),
            _ => {}
        }
        hosts.into_iter().collect()
    }
}

/// A failure whose own code nobody knows.
const EXIT_UNKNOWN: u8 = 1;

/// A trouble that decides the verdict.
fn judged(code: u8, trouble: &Trouble, ended_by_us: bool) -> (RunVerdict, u8, String) {
    let (verdict, own_code) = match trouble {
        Trouble::Unreachable { .. } => (RunVerdict::WorkerUnreachable, exit_code::WORKER_LOST),
        Trouble::Rank { ending, .. } => (RunVerdict::RankFailed, ending.shell_code()),
        Trouble::Vanished { .. } => (RunVerdict::RankFailed, EXIT_UNKNOWN),
        Trouble::Lost { .. } | Trouble::ShimGone { .. } | Trouble::Daemon { .. } => {
            (RunVerdict::WorkerLost, exit_code::WORKER_LOST)
        }
    };
    let (exit, launcher) = match (ended_by_us, code) {
        (true, _) => (own_code, "the launcher went on and was ended".to_owned()),
        (false, 0) => (
            own_code,
            "the launcher exited with 0 all the same".to_owned(),
        ),
        (false, code) => (code, format!("the launcher exited with {code}")),
    };
    (verdict, exit, format!("{}; {launcher}", trouble.sentence()))
}

#[cfg(test)]
mod tests;
