//! Which ranks a launcher's daemon runs on this host, and how they ended. A rank is a process whose
//! environment has a rank's variable while its parent's has not. Must not know what follows from a
//! rank's end; some launchers do nothing about it, and then the launcher's wrapper does.
//!
//! Where the kernel does not keep how strangers ended, what can be seen is whether a rank of Hydra
//! still held its connection to the launcher, which `MPI_Finalize` closes.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::exit_info;
use crate::frame::{Frame, RankState};
use crate::tree::{Process, Tree, value_in};

const RANK_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];
/// At first ranks come and may fail at once; later they come rarely, and looking costs them time.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_LATER: Duration = Duration::from_millis(500);
/// More handles than this would cost more than they tell.
const RANKS_MAX: usize = 512;

/// A program that does not load MPI within this many looks is taken for one without.
const MPI_LOOKS_MAX: u32 = 40;
const MPI_LIBRARIES: [&str; 2] = ["/libmpi", "/libpmpi"];

struct Rank {
    number: u32,
    process: Process,
    handle: OwnedFd,
    /// Where its connection to the launcher is, if it has one and is not a spawned process, whose
    /// end is no concern of those that spawned it.
    connection: Option<String>,
    loaded_mpi: bool,
    looks: u32,
    in_mpi: bool,
}

impl Rank {
    /// Whether it is in MPI now, if that is news.
    fn look(&mut self) -> Option<RankState> {
        let connection = self.connection.as_ref()?;
        if !self.loaded_mpi && self.looks < MPI_LOOKS_MAX {
            self.looks += 1;
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process.number));
            let maps = maps.unwrap_or_default();
            self.loaded_mpi = MPI_LIBRARIES.iter().any(|name| maps.contains(name));
        }
        let open = std::fs::read_link(connection);
        let open = open.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        let in_mpi = self.loaded_mpi && open;
        if in_mpi == self.in_mpi {
            return None;
        }
        self.in_mpi = in_mpi;
        Some(if in_mpi {
            RankState::InMpi
        } else {
            RankState::Running
        })
    }
}

fn connection(process: &Process) -> Option<String> {
    let environment = process.environment();
    let spawned = value_in(&environment, "PMI_SPAWNED").is_some_and(|value| value != b"0");
    let descriptor = std::str::from_utf8(value_in(&environment, "PMI_FD")?).ok()?;
    let descriptor: u32 = descriptor.parse().ok()?;
    (!spawned).then(|| format!("/proc/{}/fd/{descriptor}", process.number))
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
        if !self.due_in().is_zero() || self.known.len() > RANKS_MAX {
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
                connection: connection(&process),
                loaded_mpi: false,
                looks: 0,
                in_mpi: false,
            });
            frames.push(Frame::Rank(rank, RankState::Running));
        }
        for rank in &mut self.running {
            let news = rank.look().map(|state| Frame::Rank(rank.number, state));
            frames.extend(news);
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
            let state = match exit_info::ending(&rank.handle, &rank.process) {
                Some(ending) => Some(RankState::Ended(ending)),
                None => rank.in_mpi.then_some(RankState::Vanished),
            };
            frames.extend(state.map(|state| Frame::Rank(rank.number, state)));
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
