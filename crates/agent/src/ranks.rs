//! Which ranks a launcher's daemon runs on this host, and how they ended. A rank is a process whose
//! environment has a rank's variable while its parent's has not. Must not know what follows from a
//! rank's end; some launchers do nothing about it, and then the launcher's wrapper does.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::exit_info;
use crate::frame::Frame;
use crate::tree::{Process, Tree, value_in};

const RANK_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];
/// At first ranks come and may fail at once; later they come rarely, and looking costs them time.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_LATER: Duration = Duration::from_millis(500);
/// More handles than this would cost more than they tell.
const RANKS_MAX: usize = 512;

struct Rank {
    number: u32,
    process: Process,
    handle: OwnedFd,
}

/// Watches the ranks of one session.
pub(crate) struct RankWatch {
    tree: Arc<Tree>,
    running: Vec<Rank>,
    known: HashSet<(i32, u64)>,
    interval: Duration,
    next: Instant,
}

impl RankWatch {
    pub(crate) fn new(tree: Arc<Tree>) -> Self {
        Self {
            tree,
            running: Vec::new(),
            known: HashSet::new(),
            interval: LOOK_FIRST,
            next: Instant::now() + LOOK_FIRST,
        }
    }

    /// Time until the next look.
    pub(crate) fn due_in(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Become readable when their rank ends.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &OwnedFd> {
        self.running.iter().map(|rank| &rank.handle)
    }

    /// Ranks that are new, when it is time to look for them.
    pub(crate) fn look(&mut self) -> Vec<Frame> {
        if !self.due_in().is_zero() || self.known.len() >= RANKS_MAX {
            return Vec::new();
        }
        self.interval = (self.interval * 5 / 4).min(LOOK_LATER);
        self.next = Instant::now() + self.interval;
        let mut frames = Vec::new();
        for process in self.tree.descendants() {
            if self.known.contains(&(process.number, process.started)) {
                continue;
            }
            let Some(rank) = rank_of(&process) else {
                continue;
            };
            let pid = Pid::from_raw(process.number);
            let Some(Ok(handle)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
                continue;
            };
            self.known.insert((process.number, process.started));
            self.running.push(Rank {
                number: rank,
                process,
                handle,
            });
            frames.push(Frame::RankSeen(rank));
        }
        frames
    }

    /// Ranks that have ended, as far as it can be known how.
    pub(crate) fn collect(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.running.retain(|rank| {
            let now = Process::read(rank.process.number);
            if now.is_some_and(|now| now.is(&rank.process) && !now.zombie) {
                return true;
            }
            if let Some(ending) = exit_info::ending(&rank.handle, &rank.process) {
                frames.push(Frame::RankEnded(rank.number, ending));
            }
            false
        });
        frames
    }
}

fn rank_of(process: &Process) -> Option<u32> {
    let number = number_in(&process.environment())?;
    let parent = Process::read(process.parent)?;
    number_in(&parent.environment()).is_none().then_some(number)
}

fn number_in(environment: &[u8]) -> Option<u32> {
    let value = RANK_VARIABLES
        .iter()
        .find_map(|name| value_in(environment, name))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_by_their_variable() {
        assert_eq!(number_in(b"A=1\0PMI_RANK=7\0"), Some(7));
        assert_eq!(number_in(b"OMPI_COMM_WORLD_RANK=0\0PMIX_RANK=0\0"), Some(0));
        assert_eq!(number_in(b"PMI_RANK_X=7\0RANK=1\0"), None);
    }
}
