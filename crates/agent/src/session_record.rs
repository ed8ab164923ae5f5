//! What a shim leaves behind for `exec`: one small file per session, replaced whole at each change.
//! Decides its lines; must not know what is concluded from them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::caller::Caller;
use crate::frame::{Ending, RankState};

/// How far a session came.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// How many ranks the program has on this host, where that is certain.
    pub(crate) rank_count: Option<u32>,
    /// Ranks that were seen.
    pub(crate) ranks: BTreeMap<u32, RankState>,
    /// Those of them that failed, in the order in which that was heard of.
    pub(crate) failed: Vec<Failed>,
}

/// A rank that failed, and when the launcher's pod heard of it: what comes later is often an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Failed {
    /// Since the epoch. All shims of a run have the same clock.
    pub(crate) at_ms: u64,
    pub(crate) rank: u32,
}

const SUFFIX: &str = "session";

impl SessionRecord {
    /// What a worker says of a rank.
    pub(crate) fn saw(&mut self, rank: u32, state: RankState) {
        let failed = matches!(state, RankState::Ended(ending) if ending != Ending::Code(0));
        self.ranks.insert(rank, state);
        if failed {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
            let at_ms = since_epoch.unwrap_or_default().as_millis();
            let at_ms = u64::try_from(at_ms).unwrap_or(u64::MAX);
            self.failed.push(Failed { at_ms, rank });
        }
    }

    /// No longer needed.
    pub(crate) fn remove(&self, directory: &Path) {
        // Another shim's record may stand there by now, or none.
        let _ = std::fs::remove_file(directory.join(format!("{}.{SUFFIX}", self.shim)));
    }

    /// Readers see the old file or the new one.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let path = |suffix: &str| -> PathBuf { directory.join(format!("{}.{suffix}", self.shim)) };
        let draft = path("draft");
        std::fs::write(&draft, self.to_text())?;
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
            .filter_map(|path| Self::parse(&std::fs::read_to_string(path).ok()?))
            .collect()
    }

    fn to_text(&self) -> String {
        let one_line = |text: &str| text.replace(['\n', '\r'], " ");
        let mut lines = vec![
            format!("host {}", one_line(&self.host)),
            format!("shim {}", self.shim),
        ];
        lines.extend(self.caller.map(|caller| {
            let Caller { started, number } = caller;
            format!("caller {number} {started} {}", self.caller_seen)
        }));
        lines.extend(self.daemon.iter().map(|daemon| format!("daemon {daemon}")));
        lines.push(match &self.state {
            State::Calling => "calling".into(),
            State::Started => "started".into(),
            State::Ended(ending) => format!("ended {ending}"),
            State::Unreachable(why) => format!("unreachable {}", one_line(why)),
            State::Lost(why) => format!("lost {}", one_line(why)),
            State::Stopped => "stopped".into(),
        });
        lines.extend(self.rank_count.map(|count| format!("ranks {count}")));
        let ranks = self.ranks.iter();
        lines.extend(ranks.map(|(rank, state)| format!("rank {rank} {state}")));
        let failed = self.failed.iter();
        lines.extend(failed.map(|failed| format!("failed {} {}", failed.at_ms, failed.rank)));
        lines.join("\n") + "\n"
    }

    fn parse(text: &str) -> Option<Self> {
        let (mut host, mut shim, mut daemon, mut state) = (None, None, None, None);
        let (mut rank_count, mut ranks, mut failed) = (None, BTreeMap::new(), Vec::new());
        let (mut caller, mut caller_seen) = (None, 0);
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "host" => host = Some(rest.to_owned()),
                "shim" => shim = rest.parse().ok(),
                "caller" => {
                    let (number, times) = rest.split_once(' ')?;
                    let (started, seen) = times.split_once(' ')?;
                    caller = Some(Caller {
                        started: started.parse().ok()?,
                        number: number.parse().ok()?,
                    });
                    caller_seen = seen.parse().ok()?;
                }
                "daemon" => daemon = Some(rest.to_owned()),
                "calling" => state = Some(State::Calling),
                "started" => state = Some(State::Started),
                "ended" => state = Some(State::Ended(rest.parse().ok()?)),
                "unreachable" => state = Some(State::Unreachable(rest.to_owned())),
                "lost" => state = Some(State::Lost(rest.to_owned())),
                "stopped" => state = Some(State::Stopped),
                "ranks" => rank_count = Some(rest.parse().ok()?),
                "rank" => {
                    let (rank, state) = rest.split_once(' ')?;
                    ranks.insert(rank.parse().ok()?, state.parse().ok()?);
                }
                "failed" => {
                    let (at_ms, rank) = rest.split_once(' ')?;
                    let (at_ms, rank) = (at_ms.parse().ok()?, rank.parse().ok()?);
                    failed.push(Failed { at_ms, rank });
                }
                _ => return None,
            }
        }
        Some(Self {
            host: host?,
            shim: shim?,
            caller,
            caller_seen,
            daemon,
            state: state?,
            rank_count,
            ranks,
            failed,
        })
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
                rank_count: Some(4),
                ranks: [
                    (0, RankState::Running),
                    (1, RankState::InMpi),
                    (2, RankState::Vanished),
                    (3, RankState::Ended(Ending::Code(3))),
                ]
                .into(),
                failed: vec![Failed { at_ms: 7, rank: 3 }],
            };
            record.write(directory.path()).unwrap();
            assert_eq!(SessionRecord::read_all(directory.path()), [record]);
        }
    }

    #[test]
    fn ranks_that_failed_are_remembered_in_order() {
        let mut record = SessionRecord {
            host: "pi-worker-0".into(),
            shim: 1,
            caller: None,
            caller_seen: 0,
            daemon: None,
            state: State::Started,
            rank_count: None,
            ranks: [].into(),
            failed: Vec::new(),
        };
        record.saw(0, RankState::Ended(Ending::Code(0)));
        record.saw(2, RankState::Ended(Ending::Signal(9)));
        record.saw(1, RankState::Ended(Ending::Code(3)));
        let failed: Vec<_> = record.failed.iter().map(|failed| failed.rank).collect();
        assert_eq!(failed, [2, 1]);
    }

    #[test]
    fn other_files_are_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("1.session"), "host a\nwhat\n").unwrap();
        std::fs::write(directory.path().join("2.draft"), "host a\n").unwrap();
        assert_eq!(SessionRecord::read_all(directory.path()), []);
    }
}
