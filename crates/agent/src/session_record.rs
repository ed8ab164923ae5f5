//! What a shim leaves behind for `exec`: one small file per session, replaced whole at each change.
//! Decides its form; must not know what is concluded from them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::frame::{Ending, RankState};

/// How far a session came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// The worker is being called.
    Calling,
    /// The command runs over there.
    Started,
    /// It ended.
    Ended(Ending),
    /// The worker could not be reached, or refused.
    Unreachable(String),
    /// The connection ended before the command did.
    Lost(String),
    /// The launcher ended its shim.
    Stopped,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(crate) host: String,
    /// The shim's process, which may be killed without a word.
    pub(crate) shim: u32,
    /// The launcher that called it.
    pub(crate) caller: Option<Caller>,
    /// When the shim last saw it alive, in clock ticks since boot.
    pub(crate) caller_seen: u64,
    /// The launcher's daemon that it started, if it was one.
    pub(crate) daemon: Option<String>,
    pub(crate) state: State,
    /// The worker was told to end, and waits for the launcher to stop the program.
    pub(crate) is_leaving: bool,
    /// How many ranks the program has on this host, where that is certain.
    pub(crate) rank_count: Option<u32>,
    /// Ranks that were seen.
    pub(crate) ranks: BTreeMap<u32, RankState>,
    /// Those of them that failed, in the order in which that was heard of.
    pub(crate) failed: Vec<Failed>,
    /// Reports of the worker that were heeded.
    #[serde(skip)]
    pub(crate) reports: u32,
    /// What was written of them so far.
    #[serde(skip)]
    pub(crate) news_bytes: usize,
}

/// A rank that failed, and when the launcher's pod heard of it: what comes later is often an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// Since the epoch. All shims of a run have the same clock.
    pub(crate) at_ms: u64,
    pub(crate) rank: u32,
}

const SUFFIX: &str = "session";

/// Ranks of one session that are remembered; no host has as many processors.
const RANKS_MAX: usize = 4096;
/// Reports of one session that are heeded: a rank has few states, and each change writes the whole record.
const REPORTS_MAX: u32 = 4 * 4096;
/// What is written of one session's reports, all records together: a host with 800 ranks needs less.
const NEWS_BYTES_MAX: usize = 32 * 1024 * 1024;

impl SessionRecord {
    /// What a worker says of a rank. Whether that is news; a worker that talks without end is not heard.
    pub(crate) fn saw(&mut self, rank: u32, state: RankState) -> bool {
        let known = self.ranks.get(&rank).copied();
        let is_final = matches!(known, Some(RankState::Ended(_)));
        let is_full = known.is_none() && self.ranks.len() >= RANKS_MAX;
        if known == Some(state) || is_final || is_full || !self.heeds_another() {
            return false;
        }
        let failed = matches!(state, RankState::Ended(ending) if ending != Ending::Code(0));
        self.ranks.insert(rank, state);
        if failed {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
            let at_ms = since_epoch.unwrap_or_default().as_millis();
            let at_ms = u64::try_from(at_ms).unwrap_or(u64::MAX);
            self.failed.push(Failed { at_ms, rank });
        }
        true
    }

    /// What a worker says of the number of its ranks. Whether that is news.
    pub(crate) fn counted(&mut self, ranks: Option<u32>) -> bool {
        let is_news = self.rank_count != ranks && self.heeds_another();
        if is_news {
            self.rank_count = ranks;
        }
        is_news
    }

    fn heeds_another(&mut self) -> bool {
        self.reports = self.reports.saturating_add(1);
        self.reports <= REPORTS_MAX
    }

    /// No longer needed.
    pub(crate) fn remove(&self, directory: &Path) {
        // Another shim's record may stand there by now, or none.
        let _ = std::fs::remove_file(directory.join(format!("{}.{SUFFIX}", self.shim)));
    }

    /// Readers see the old file or the new one.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        self.replace(directory, &serde_json::to_vec(self)?)
    }

    /// The same, after a report of the worker. A worker that made us write too much is written of again
    /// when its session ends.
    pub(crate) fn write_news(&mut self, directory: &Path) -> io::Result<()> {
        if self.news_bytes >= NEWS_BYTES_MAX {
            return Ok(());
        }
        let text = serde_json::to_vec(self)?;
        self.news_bytes = self.news_bytes.saturating_add(text.len());
        self.replace(directory, &text)
    }

    fn replace(&self, directory: &Path, text: &[u8]) -> io::Result<()> {
        let path = |suffix: &str| -> PathBuf { directory.join(format!("{}.{suffix}", self.shim)) };
        let draft = path("draft");
        std::fs::write(&draft, text)?;
        std::fs::rename(draft, path(SUFFIX))
    }

    /// All records of a directory; what cannot be read is not there.
    pub(crate) fn read_all(directory: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX))
            .filter_map(|path| serde_json::from_slice(&std::fs::read(path).ok()?).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_comes_back_from_disk() {
        let directory = tempfile::tempdir().unwrap();
        let states = [
            State::Calling,
            State::Started,
            State::Ended(Ending::Code(3)),
            State::Ended(Ending::Signal(9)),
            State::Unreachable("no answer in time".into()),
            State::Lost("nothing was heard for 8 s".into()),
            State::Stopped,
        ];
        for state in states {
            let record = SessionRecord {
                host: "pi-worker-0".into(),
                shim: 4242,
                caller: Some(Caller {
                    started: 99,
                    number: 41,
                }),
                caller_seen: 100,
                daemon: Some("orted".into()),
                state,
                is_leaving: true,
                rank_count: Some(4),
                ranks: [
                    (0, RankState::Running),
                    (1, RankState::InMpi),
                    (2, RankState::Vanished),
                    (3, RankState::Ended(Ending::Code(3))),
                ]
                .into(),
                failed: vec![Failed { at_ms: 7, rank: 3 }],
                reports: 0,
                news_bytes: 0,
            };
            record.write(directory.path()).unwrap();
            assert_eq!(SessionRecord::read_all(directory.path()), [record]);
        }
    }

    #[test]
    fn ranks_that_failed_are_remembered_in_order() {
        let mut record = running();
        record.saw(0, RankState::Ended(Ending::Code(0)));
        record.saw(2, RankState::Ended(Ending::Signal(9)));
        record.saw(1, RankState::Ended(Ending::Code(3)));
        let failed: Vec<_> = record.failed.iter().map(|failed| failed.rank).collect();
        assert_eq!(failed, [2, 1]);
    }

    fn running() -> SessionRecord {
        SessionRecord {
            host: "pi-worker-0".into(),
            shim: 1,
            caller: None,
            caller_seen: 0,
            daemon: None,
            state: State::Started,
            is_leaving: false,
            rank_count: None,
            ranks: [].into(),
            failed: Vec::new(),
            reports: 0,
            news_bytes: 0,
        }
    }

    #[test]
    fn s14_a_worker_that_reports_without_end_is_not_heard_any_more() {
        let mut record = running();
        let news = (0..1_000_000).filter(|rank| record.saw(*rank, RankState::Running));
        assert_eq!(news.count(), RANKS_MAX);
        assert_eq!(record.ranks.len(), RANKS_MAX);
        let mut record = running();
        let flip = |turn: u32| match turn % 2 {
            0 => RankState::Running,
            _ => RankState::InMpi,
        };
        let news = (0..1_000_000).filter(|turn| record.saw(0, flip(*turn)));
        assert_eq!(news.count(), REPORTS_MAX as usize);
        let counts = (0..1_000_000).filter(|turn| record.counted(Some(*turn)));
        assert_eq!(counts.count(), 0);
    }

    #[test]
    fn s14_a_worker_that_reports_without_end_fills_no_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.session");
        let (mut record, mut written) = (running(), 0);
        let ranks = u32::try_from(RANKS_MAX).unwrap();
        for turn in 0..REPORTS_MAX {
            let state = match turn / ranks % 2 {
                0 => RankState::Running,
                _ => RankState::InMpi,
            };
            assert!(record.saw(turn % ranks, state));
            record.write_news(directory.path()).unwrap();
            if let Ok(file) = std::fs::metadata(&path) {
                written += usize::try_from(file.len()).unwrap();
                std::fs::remove_file(&path).unwrap();
            }
        }
        let spare = 256 * 1024;
        assert!(
            (NEWS_BYTES_MAX..NEWS_BYTES_MAX + spare).contains(&written),
            "{written} bytes"
        );
        record.write(directory.path()).unwrap();
        let [last] = &SessionRecord::read_all(directory.path())[..] else {
            panic!("one session has one record");
        };
        assert_eq!(last.ranks, record.ranks);
    }

    #[test]
    fn s14_what_a_rank_ended_with_does_not_change() {
        let mut record = running();
        assert!(record.saw(0, RankState::Ended(Ending::Code(3))));
        assert!(!record.saw(0, RankState::Ended(Ending::Code(0))));
        assert!(!record.saw(0, RankState::Running));
        assert_eq!(record.failed.len(), 1);
    }

    #[test]
    fn other_files_are_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("1.session"), "{\"host\": \"a\"}").unwrap();
        std::fs::write(directory.path().join("2.draft"), "host a\n").unwrap();
        assert_eq!(SessionRecord::read_all(directory.path()), []);
    }
}
