//! What the sessions say about a run. Decides whether it went wrong although the launcher goes on or
//! says 0, and the verdict at its end. Pure; must not know files, processes or clocks.
//!
//! Only sessions of a launcher's own daemon can contradict the launcher: what other commands return
//! (a test of Horovod's, `hostname`) is their caller's business.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::callers::Callers;
use crate::caller::Caller;
use crate::contract::{EXIT_NOT_DISTRIBUTED, EXIT_WORKER_LOST};
use crate::frame::{Ending, RankState};
use crate::session_record::{SessionRecord, State};
use crate::verdict::{Kind, Verdict};

/// A launcher that notices trouble by itself ends by then, and says more than we can.
const PATIENCE: Duration = Duration::from_secs(2);
/// Ranks leave MPI together, but not in the same moment.
const VANISHED_PATIENCE: Duration = Duration::from_secs(6);
/// Ranks that die of another's failure do so within this time of it, or later.
const ECHO_MS: u64 = 700;
/// Illegal instruction, bus error, arithmetic, memory.
const CRASHES: [u8; 4] = [4, 7, 8, 11];
const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;

/// Something that a healthy run does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Lost {
        host: String,
        why: String,
    },
    Unreachable {
        host: String,
        why: String,
    },
    /// The shim was killed and could not say more.
    ShimGone {
        host: String,
    },
    Daemon {
        host: String,
        name: String,
        ending: Ending,
    },
    Rank {
        host: String,
        rank: u32,
        ending: Ending,
    },
    /// A rank is gone while others are still in MPI: they wait for it, and for ever.
    Vanished {
        host: String,
        rank: u32,
    },
}

impl Trouble {
    /// What comes first explains the others: ranks die of a lost worker, not the reverse; launchers
    /// end the other ranks by signal when one has failed.
    fn weight(&self) -> u8 {
        match self {
            Self::Lost { .. } => 0,
            Self::Unreachable { .. } => 1,
            Self::Rank {
                ending: Ending::Signal(SIGKILL | SIGTERM),
                ..
            } => 4,
            Self::Rank { .. } => 2,
            Self::Daemon { ending, .. } if ending.shell_code() > 128 => 3,
            Self::Daemon { .. } => 5,
            Self::ShimGone { .. } => 6,
            Self::Vanished { .. } => 7,
        }
    }

    /// How long the launcher may go on after it.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Self::Vanished { .. } => VANISHED_PATIENCE,
            _ => PATIENCE,
        }
    }

    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Lost { host, why } => format!("worker {host} was lost: {why}"),
            Self::Unreachable { host, why } => format!("worker {host} could not be used: {why}"),
            Self::ShimGone { host } => format!("the connection to worker {host} was killed"),
            Self::Daemon { host, name, ending } => {
                format!("{name} on worker {host} {}", ending_words(*ending))
            }
            Self::Rank { host, rank, ending } => {
                format!("rank {rank} on worker {host} {}", ending_words(*ending))
            }
            Self::Vanished { host, rank } => {
                format!("rank {rank} on worker {host} ended without finalizing MPI")
            }
        }
    }

    /// Whether a launcher that failed with this code by itself failed because of this. Ranks that
    /// were ended by signal may have been ended by the launcher, which then names the cause.
    fn explains(&self, code: u8) -> bool {
        match self {
            Self::Rank {
                ending: Ending::Signal(signal @ (SIGKILL | SIGTERM)),
                ..
            } => [128 + signal, *signal, 255].contains(&code),
            other => other.weight() <= 3,
        }
    }
}

fn ending_words(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => format!("exited with code {code}"),
        Ending::Signal(signal) => format!("was ended by signal {signal}"),
    }
}

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

    fn troubles(&self, shim_lives: impl Fn(u32) -> bool) -> impl Iterator<Item = Trouble> {
        let daemons = self.records.iter().filter(|record| record.daemon.is_some());
        daemons.filter_map(move |record| trouble_of(record, &shim_lives))
    }

    /// What a launcher ended of by itself.
    fn cause_of(&self, code: u8, shim_lives: impl Fn(u32) -> bool) -> Option<Trouble> {
        let explains = |trouble: &Trouble| code == 0 || trouble.explains(code);
        let first = self.first_failed().filter(|first| {
            let mut records = self.rank_records();
            explains(first) || records.any(|record| is_own_doing(first, record))
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
            (!is_own_doing(trouble, record), failed.at_ms, failed.rank)
        });
        blamed.map(|(.., trouble)| trouble)
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

    fn ranks_per_host(&self) -> BTreeMap<String, usize> {
        let mut ranks: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for record in &self.records {
            let seen = record.ranks.keys();
            ranks.entry(record.host.clone()).or_default().extend(seen);
        }
        let counts = ranks.into_iter().map(|(host, ranks)| (host, ranks.len()));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// The end of it all. `ended_for`: why we ended a launcher that went on regardless.
    pub(super) fn verdict(
        &self,
        code: u8,
        stopped: Option<i32>,
        ended_for: Option<Trouble>,
        shim_lives: impl Fn(u32) -> bool,
    ) -> Verdict {
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
        let (kind, exit, message) = match (stopped, &trouble) {
            (Some(signal), _) => {
                let by_signal = 128 | u8::try_from(signal & 0x7f).unwrap_or_default();
                let exit = if code == 0 { by_signal } else { code };
                (Kind::Stopped, exit, format!("ended by signal {signal}"))
            }
            (None, Some(trouble)) => judged(code, trouble, ended_by_us),
            (None, _) if code == 0 && too_few => {
                let asked = self.asked.unwrap_or_default();
                let message = format!(
                    "the launcher exited with 0, but only {hosts} of {asked} workers took part: \
                     the launcher did not find its list of hosts, or was not asked to use it"
                );
                (Kind::RanksNotDistributed, EXIT_NOT_DISTRIBUTED, message)
            }
            (None, _) if code == 0 => (Kind::Succeeded, 0, String::new()),
            (None, _) => {
                let message = format!("the launcher exited with {code}");
                (Kind::Failed, code, message)
            }
        };
        let signal = match &trouble {
            Some(Trouble::Rank {
                ending: Ending::Signal(signal),
                ..
            }) if kind == Kind::RankFailed => Some(*signal),
            _ => None,
        };
        Verdict {
            kind,
            exit,
            signal,
            hosts,
            asked: self.asked,
            ranks_per_host: self.ranks_per_host(),
            lost: judged_by.lost_hosts(kind, trouble.as_ref()),
            message,
        }
    }

    fn lost_hosts(&self, kind: Kind, trouble: Option<&Trouble>) -> Vec<String> {
        if !matches!(kind, Kind::WorkerLost | Kind::WorkerUnreachable) {
            return Vec::new();
        }
        let lost = self.records.iter().filter(|record| {
            record.daemon.is_some()
                && matches!(record.state, State::Lost(_) | State::Unreachable(_))
        });
        let mut hosts: BTreeSet<_> = lost.map(|record| record.host.clone()).collect();
        if let Some(Trouble::ShimGone { host } | Trouble::Daemon { host, .. }) = trouble {
            hosts.insert(host.clone());
        }
        hosts.into_iter().collect()
    }
}

/// What became of a session, if that is no good.
fn trouble_of(record: &SessionRecord, shim_lives: impl Fn(u32) -> bool) -> Option<Trouble> {
    let host = record.host.clone();
    match &record.state {
        State::Lost(why) => Some(Trouble::Lost {
            host,
            why: why.clone(),
        }),
        State::Unreachable(why) => Some(Trouble::Unreachable {
            host,
            why: why.clone(),
        }),
        State::Ended(ending) if *ending != Ending::Code(0) => Some(Trouble::Daemon {
            host,
            name: record.daemon.clone().unwrap_or_default(),
            ending: *ending,
        }),
        State::Calling | State::Started if !shim_lives(record.shim) => {
            Some(Trouble::ShimGone { host })
        }
        _ => None,
    }
}

/// Nobody else did that to the rank: it crashed, or it was killed where the launcher does not kill
/// ranks before it has asked them to end, and has waited.
fn is_own_doing(trouble: &Trouble, record: &SessionRecord) -> bool {
    match trouble {
        Trouble::Rank {
            host,
            ending: Ending::Signal(signal),
            ..
        } if *host == record.host => {
            let daemon = record.daemon.as_deref();
            let asks_first = matches!(daemon, Some("orted" | "prted"));
            CRASHES.contains(signal) || (*signal == SIGKILL && asks_first)
        }
        _ => false,
    }
}

fn failed_rank(record: &SessionRecord, rank: u32, state: RankState) -> Option<Trouble> {
    match state {
        RankState::Ended(ending) if ending != Ending::Code(0) => Some(Trouble::Rank {
            host: record.host.clone(),
            rank,
            ending,
        }),
        _ => None,
    }
}

/// A failure whose own code nobody knows.
const EXIT_UNKNOWN: u8 = 1;

/// A trouble that decides the verdict.
fn judged(code: u8, trouble: &Trouble, ended_by_us: bool) -> (Kind, u8, String) {
    let (kind, own_code) = match trouble {
        Trouble::Unreachable { .. } => (Kind::WorkerUnreachable, EXIT_WORKER_LOST),
        Trouble::Rank { ending, .. } => (Kind::RankFailed, ending.shell_code()),
        Trouble::Vanished { .. } => (Kind::RankFailed, EXIT_UNKNOWN),
        Trouble::Lost { .. } | Trouble::ShimGone { .. } | Trouble::Daemon { .. } => {
            (Kind::WorkerLost, EXIT_WORKER_LOST)
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
    (kind, exit, format!("{}; {launcher}", trouble.sentence()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_record::Failed;

    fn record(host: &str, state: State) -> SessionRecord {
        SessionRecord {
            host: host.into(),
            shim: 1,
            caller: None,
            caller_seen: 0,
            daemon: Some("prted".into()),
            state,
            ranks: [(0, RankState::Ended(Ending::Code(0)))].into(),
            failed: Vec::new(),
        }
    }

    fn census(records: Vec<SessionRecord>) -> Census {
        Census {
            records,
            callers: Callers::default(),
            asked: Some(2),
            counts_hosts: true,
            watches_ranks: true,
        }
    }

    fn ended(host: &str) -> SessionRecord {
        record(host, State::Ended(Ending::Code(0)))
    }

    fn judge(census: &Census, code: u8, shim_lives: bool) -> (Kind, u8) {
        let verdict = census.verdict(code, None, None, |_| shim_lives);
        (verdict.kind, verdict.exit)
    }

    #[test]
    fn zero_is_believed_when_all_took_part_and_ended_well() {
        let good = census(vec![ended("w0"), ended("w1")]);
        assert_eq!(judge(&good, 0, true), (Kind::Succeeded, 0));
        assert_eq!(judge(&good, 3, true), (Kind::Failed, 3));
        let verdict = good.verdict(0, None, None, |_| true);
        assert_eq!(
            verdict.ranks_per_host,
            [("w0".into(), 1), ("w1".into(), 1)].into()
        );
    }

    #[test]
    fn zero_is_not_believed_on_too_few_hosts() {
        let mut few = census(vec![ended("w0"), ended("w0")]);
        assert_eq!(judge(&few, 0, true), (Kind::RanksNotDistributed, 118));
        let message = few.verdict(0, None, None, |_| true).message;
        assert!(message.contains("only 1 of 2 workers"), "{message}");
        few.counts_hosts = false;
        assert_eq!(judge(&few, 0, true), (Kind::Succeeded, 0));
        assert_eq!(
            judge(&census(vec![]), 0, true),
            (Kind::RanksNotDistributed, 118)
        );
    }

    #[test]
    fn zero_is_not_believed_when_a_worker_was_lost() {
        let states = [
            State::Lost("nothing was heard".into()),
            State::Ended(Ending::Signal(9)),
            State::Ended(Ending::Code(1)),
            State::Started,
        ];
        for state in states {
            let census = census(vec![ended("w0"), record("w1", state.clone())]);
            assert_eq!(
                judge(&census, 0, false),
                (Kind::WorkerLost, 119),
                "{state:?}"
            );
            let verdict = census.verdict(0, None, None, |_| false);
            assert_eq!(verdict.lost, ["w1"], "{state:?}");
        }
        let stopped = census(vec![ended("w0"), record("w1", State::Stopped)]);
        assert_eq!(judge(&stopped, 0, false), (Kind::Succeeded, 0));
    }

    #[test]
    fn other_commands_do_not_contradict_the_launcher() {
        let test = SessionRecord {
            daemon: None,
            ..record("w1", State::Lost("x".into()))
        };
        let census = census(vec![ended("w0"), ended("w1"), test]);
        assert_eq!(judge(&census, 0, true), (Kind::Succeeded, 0));
    }

    #[test]
    fn the_rank_that_failed_first_is_named() {
        let mut first = record("w0", State::Started);
        first.ranks = [
            (0, RankState::Ended(Ending::Signal(9))),
            (1, RankState::Ended(Ending::Code(3))),
        ]
        .into();
        let census = census(vec![first, ended("w1")]);
        let (trouble, _) = census.trouble(|_| true).unwrap();
        assert_eq!(trouble.sentence(), "rank 1 on worker w0 exited with code 3");
        let verdict = census.verdict(143, None, Some(trouble), |_| true);
        assert_eq!((verdict.kind, verdict.exit), (Kind::RankFailed, 3));
        assert_eq!(judge(&census, 255, true), (Kind::RankFailed, 255));
    }

    #[test]
    fn ranks_that_the_launcher_ended_are_not_blamed() {
        let mut first = record("w0", State::Started);
        first.ranks = [(0, RankState::Ended(Ending::Signal(15)))].into();
        let mut second = record("w1", State::Started);
        second.ranks = [(1, RankState::Ended(Ending::Signal(9)))].into();
        let census = census(vec![first, second]);
        let message = |code| census.verdict(code, None, None, |_| true).message;
        assert!(
            message(137).starts_with("rank 1 on worker w1"),
            "{}",
            message(137)
        );
        // MPI_Abort(5): whoever called it is not among those that were seen to end.
        assert_eq!(message(5), "the launcher exited with 5");
    }

    #[test]
    fn the_rank_that_failed_first_is_blamed_and_not_those_that_died_of_it() {
        let failed = |host: &str, rank, ending, at_ms| SessionRecord {
            ranks: [(rank, RankState::Ended(ending))].into(),
            failed: vec![Failed { at_ms, rank }],
            ..record(host, State::Started)
        };
        let killed = failed("w1", 1, Ending::Signal(9), 20);
        let echo = failed("w0", 0, Ending::Code(14), 10);
        let run = census(vec![echo.clone(), killed.clone()]);
        let verdict = run.verdict(14, None, None, |_| true);
        assert_eq!(verdict.exit, 14);
        assert!(verdict.message.starts_with("rank 1 on worker w1"));
        let (trouble, _) = run.trouble(|_| true).unwrap();
        assert_eq!(
            trouble.sentence(),
            "rank 1 on worker w1 was ended by signal 9"
        );
        // Hydra kills the others at once, but crashes are nobody's doing.
        let hydra = |record: &SessionRecord| SessionRecord {
            daemon: Some("hydra_pmi_proxy".into()),
            ..record.clone()
        };
        let run = census(vec![hydra(&echo), hydra(&killed)]);
        let verdict = run.verdict(14, None, None, |_| true);
        assert!(verdict.message.starts_with("rank 0 on worker w0"));
        let crashed = failed("w1", 1, Ending::Signal(11), 20);
        let run = census(vec![hydra(&echo), hydra(&crashed)]);
        let verdict = run.verdict(255, None, None, |_| true);
        assert!(verdict.message.starts_with("rank 1 on worker w1"));
        // Later it may have been the launcher.
        let late = failed("w1", 1, Ending::Signal(9), 10 + ECHO_MS + 1);
        let run = census(vec![echo, late]);
        let verdict = run.verdict(14, None, None, |_| true);
        assert!(verdict.message.starts_with("rank 0 on worker w0"));
    }

    #[test]
    fn a_rank_that_vanished_is_trouble_only_while_others_are_in_mpi() {
        let with = |host, rank, state| SessionRecord {
            ranks: [(rank, state)].into(),
            ..record(host, State::Started)
        };
        let gone = with("w0", 0, RankState::Vanished);
        let waits = census(vec![gone.clone(), with("w1", 1, RankState::InMpi)]);
        let (trouble, _) = waits.trouble(|_| true).unwrap();
        assert_eq!(trouble.patience(), VANISHED_PATIENCE);
        let verdict = waits.verdict(143, None, Some(trouble), |_| true);
        assert_eq!((verdict.kind, verdict.exit), (Kind::RankFailed, 1));
        for state in [RankState::Running, RankState::Vanished] {
            let done = census(vec![gone.clone(), with("w1", 1, state)]);
            assert_eq!(done.trouble(|_| true), None, "{state:?}");
        }
        let ended = census(vec![ended("w0"), with("w1", 1, RankState::InMpi)]);
        assert_eq!(judge(&ended, 0, true), (Kind::Succeeded, 0));
    }

    #[test]
    fn a_killed_daemon_outweighs_the_ranks_that_it_takes_along() {
        let mut killed = record("w0", State::Ended(Ending::Code(137)));
        killed.ranks = [(0, RankState::Ended(Ending::Signal(15)))].into();
        let census = census(vec![killed, ended("w1")]);
        assert_eq!(judge(&census, 0, true), (Kind::WorkerLost, 119));
    }

    #[test]
    fn told_to_stop_is_never_a_success() {
        let good = census(vec![ended("w0"), ended("w1")]);
        let verdict = good.verdict(0, Some(15), None, |_| true);
        assert_eq!((verdict.kind, verdict.exit), (Kind::Stopped, 143));
        let verdict = good.verdict(1, Some(15), None, |_| true);
        assert_eq!((verdict.kind, verdict.exit), (Kind::Stopped, 1));
    }
    fn of_caller(started: u64, seen: u64, record: SessionRecord) -> SessionRecord {
        SessionRecord {
            caller: Some(Caller { started, number: 7 }),
            caller_seen: seen,
            ..record
        }
    }

    /// Two launchers, the first of which failed; the living are told by when they began.
    fn two_launchers(first_seen: u64, second: State, living: &[u64]) -> Census {
        let lost = State::Lost("nothing was heard".into());
        let mut both = census(vec![
            of_caller(10, first_seen, record("w0", lost)),
            of_caller(30, 31, record("w0", second.clone())),
            of_caller(30, 31, record("w1", second)),
        ]);
        let lives = |caller: Caller| living.contains(&caller.started);
        both.callers.look(&both.records, 40, lives);
        both
    }

    #[test]
    fn a_launcher_that_has_ended_is_no_trouble_for_the_next() {
        let next = two_launchers(12, State::Started, &[30]);
        assert_eq!(next.trouble(|_| true), None);
        let (trouble, caller) = next.trouble(|_| false).unwrap();
        assert_eq!(caller.map(|caller| caller.started), Some(30), "{trouble:?}");
        let at_once = two_launchers(12, State::Started, &[10, 30]);
        let (trouble, caller) = at_once.trouble(|_| true).unwrap();
        assert_eq!(caller.map(|caller| caller.started), Some(10), "{trouble:?}");
    }

    #[test]
    fn zero_is_judged_by_the_last_launchers_and_failure_by_them_first() {
        let good = State::Ended(Ending::Code(0));
        let retried = two_launchers(12, good.clone(), &[]);
        assert_eq!(judge(&retried, 0, true), (Kind::Succeeded, 0));
        assert_eq!(judge(&retried, 1, true), (Kind::WorkerLost, 1));
        let at_once = two_launchers(35, good, &[]);
        assert_eq!(judge(&at_once, 0, true), (Kind::WorkerLost, 119));
        let unreachable = State::Unreachable("no answer".into());
        let both_failed = two_launchers(12, unreachable, &[]);
        let verdict = both_failed.verdict(1, None, None, |_| true);
        assert_eq!(verdict.kind, Kind::WorkerUnreachable);
        assert_eq!(verdict.lost, ["w0", "w1"]);
    }

    #[test]
    fn ranks_of_two_launchers_do_not_wait_for_each_other() {
        let with = |started, host, rank, state| SessionRecord {
            ranks: [(rank, state)].into(),
            ..of_caller(started, 31, record(host, State::Started))
        };
        let mut run = census(vec![
            with(10, "w0", 0, RankState::Vanished),
            with(30, "w1", 0, RankState::InMpi),
        ]);
        run.callers.look(&run.records, 40, |_| true);
        assert_eq!(run.trouble(|_| true), None);
    }
}
