//! Which ranks a launcher's daemon runs on this host, and how they ended. A wrapper in front of every
//! rank reports it, where the launcher has a setting for that. MPICH's Hydra has none: its ranks are
//! found in the process table, where a short one may be missed. Decides what the launcher's side is
//! told, which is never a guess. Must not know what follows from a rank's end.

mod identity;
mod pmi_connection;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::mpi::{MpiLauncher, RankWrapper};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::exit_info;
use crate::frame::{Frame, RankState};
use crate::poll::poll;
use crate::tree::{Process, Tree, value_in};
pub(crate) use identity::Identity;
use pmi_connection::PmiConnection;
pub(crate) use report::{Reporter, Reports};

/// Scans of the process table follow each other closely while a launcher starts its ranks, and rarely
/// after that: a fiftieth of the time since the daemon started, within these bounds.
const SCAN_PAUSE_MIN: Duration = Duration::from_millis(2);
const SCAN_PAUSE_MAX: Duration = Duration::from_millis(500);
const SCAN_BACKOFF: u32 = 50;
/// A scan is followed by a pause of so many times its own length.
const SCAN_REST: u32 = 10;
/// Watching more ranks than this would cost more than it tells.
const RANKS_MAX: usize = 512;

/// The words that launchers put in front of a rank's program. They split them at blanks.
pub(crate) fn wrapper() -> io::Result<OsString> {
    let mut words = std::env::current_exe()?.into_os_string();
    if words.as_encoded_bytes().contains(&b' ') {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    words.push(" rank");
    Ok(words)
}

/// Where a daemon reads them, if all that it starts then has a wrapper. Intel MPI's launcher reads
/// them, and tells its daemons.
pub(crate) fn wrapper_variable(daemon: &str) -> Option<&'static str> {
    match MpiLauncher::of_daemon(daemon)?.rank_wrapper {
        RankWrapper::ReadByDaemons(name) => Some(name),
        RankWrapper::ReadByLauncher(..) | RankWrapper::None => None,
    }
}

/// A rank that runs.
struct Rank {
    number: u32,
    process: Process,
    handle: OwnedFd,
    connection: Option<PmiConnection>,
}

/// Watches the ranks of one session.
pub(crate) struct RankWatch {
    tree: Arc<Tree>,
    started: Instant,
    reports: Option<Reports>,
    /// When to scan the process table next, unless that cannot tell more.
    next_scan: Option<Instant>,
    running: Vec<Rank>,
    /// All ranks that were seen.
    seen: BTreeSet<u32>,
    /// Of the first rank. Ranks of another program are not mixed with these.
    world: Option<String>,
    local_size: Option<u32>,
}

impl RankWatch {
    /// `reported`: all ranks of this daemon have our wrapper, or the user's in its place.
    pub(crate) fn new(tree: Arc<Tree>, reports: Option<Reports>, reported: bool) -> Self {
        let started = Instant::now();
        Self {
            tree,
            started,
            reports,
            next_scan: (!reported).then_some(started + SCAN_PAUSE_MIN),
            running: Vec::new(),
            seen: BTreeSet::new(),
            world: None,
            local_size: None,
        }
    }

    /// Time until the next scan, if there is one.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let next = self.next_scan?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// What becomes ready when there is news.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let reports = self.reports.iter();
        let reports = reports.map(|reports| PollFd::new(reports, PollFlags::IN));
        reports.chain(self.running.iter().map(|rank| end_of(&rank.handle)))
    }

    /// Everything that is new.
    pub(crate) fn news(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        let reports = self.reports.as_ref().map(Reports::take);
        for (report, handle) in reports.into_iter().flatten() {
            self.on_rank(
                &report.identity,
                report.process,
                report.state,
                handle,
                &mut frames,
            );
        }
        if self.due_in().is_some_and(|due| due.is_zero()) {
            self.scan(&mut frames);
        }
        self.collect(&mut frames);
        frames
    }

    /// A rank was seen, or has ended.
    fn on_rank(
        &mut self,
        identity: &Identity,
        process: Process,
        state: RankState,
        handle: Option<OwnedFd>,
        frames: &mut Vec<Frame>,
    ) {
        if !self.is_ours(identity, frames) {
            return;
        }
        let number = identity.rank;
        frames.push(Frame::Rank(number, state));
        let Some(handle) = handle.filter(|_| state == RankState::Running) else {
            return;
        };
        if self.running.len() < RANKS_MAX && !self.watches(&process) {
            let connection = || PmiConnection::of(&process);
            let connection = (!exit_info::is_kept()).then(connection).flatten();
            self.running.push(Rank {
                number,
                process,
                handle,
                connection,
            });
        }
    }

    /// Whether it is a rank of the program whose ranks we count. A daemon that also runs another
    /// program leaves us without a count.
    fn is_ours(&mut self, identity: &Identity, frames: &mut Vec<Frame>) -> bool {
        let world = self.world.get_or_insert_with(|| identity.world.clone());
        let ours = *world == identity.world;
        if self.seen.is_empty() || !ours {
            self.local_size = identity.local_size.filter(|_| ours);
            frames.push(Frame::RankCount(self.local_size));
        }
        if ours {
            self.seen.insert(identity.rank);
        }
        ours
    }

    fn watches(&self, process: &Process) -> bool {
        self.running.iter().any(|rank| rank.process.is(process))
    }

    fn scan(&mut self, frames: &mut Vec<Frame>) {
        let begun = Instant::now();
        for process in self.tree.descendants() {
            if !self.watches(&process)
                && let Some((identity, handle)) = found(&process)
            {
                self.on_rank(&identity, process, RankState::Running, Some(handle), frames);
            }
        }
        for rank in &mut self.running {
            let state = rank.connection.as_mut().and_then(PmiConnection::changed);
            frames.extend(state.map(|state| Frame::Rank(rank.number, state)));
        }
        // All ranks are known then, and their handles will tell how they end.
        let size = self.local_size.map(usize::try_from);
        let known = size.is_some_and(|size| size.is_ok_and(|size| self.seen.len() >= size));
        self.next_scan = (!known || !exit_info::is_kept()).then(|| {
            let backoff = self.started.elapsed() / SCAN_BACKOFF;
            let pause = backoff.clamp(SCAN_PAUSE_MIN, SCAN_PAUSE_MAX);
            Instant::now() + pause.max(begun.elapsed() * SCAN_REST)
        });
    }

    /// Ranks that have ended, as far as it can be known how.
    fn collect(&mut self, frames: &mut Vec<Frame>) {
        let handles = self.running.iter().map(|rank| end_of(&rank.handle));
        let mut handles: Vec<_> = handles.collect();
        if handles.is_empty() || poll(&mut handles, Duration::ZERO).is_err() {
            return;
        }
        let ended = handles.iter().map(|handle| !handle.revents().is_empty());
        let mut ended = ended.collect::<Vec<_>>().into_iter();
        self.running.retain(|rank| {
            if ended.next() != Some(true) {
                return true;
            }
            let ending = exit_info::ending(&rank.handle, &rank.process).map(RankState::Ended);
            let connection = rank.connection.as_ref();
            let state = ending.or_else(|| connection.and_then(PmiConnection::lost));
            frames.extend(state.map(|state| Frame::Rank(rank.number, state)));
            false
        });
    }
}

/// Whom a signal is for that is to stop ranks in good order: of each rank, the processes that handle it, or all
/// of them if none does. A shell that waits for the program would only die of it. Where no process is a rank,
/// `or_all` counts all of them as one.
pub(crate) fn stopped_by(processes: Vec<Process>, signal: i32, or_all: bool) -> Vec<Process> {
    let of = |process: &Process| {
        let environment = process.environment();
        let identity = Identity::of(|name| value_in(&environment, name).map(<[u8]>::to_vec))?;
        Some((identity.world, identity.rank))
    };
    let mut by_rank: BTreeMap<_, Vec<Process>> = BTreeMap::new();
    for process in processes {
        by_rank.entry(of(&process)).or_default().push(process);
    }
    let has_ranks = by_rank.keys().any(Option::is_some);
    by_rank.retain(|rank, _| rank.is_some() || (or_all && !has_ranks));
    let targets = by_rank.into_values().flat_map(|members| {
        let handles = |member: &&Process| member.handles(signal) && !member.runs_our_program();
        let handlers: Vec<Process> = members.iter().filter(handles).copied().collect();
        if handlers.is_empty() {
            members
        } else {
            handlers
        }
    });
    targets.collect()
}

fn end_of(handle: &OwnedFd) -> PollFd<'_> {
    PollFd::new(handle, PollFlags::IN)
}

/// Which rank a process is, and its handle. What a rank starts inherits its variables.
fn found(process: &Process) -> Option<(Identity, OwnedFd)> {
    let of = |process: &Process| {
        let environment = process.environment();
        Identity::of(|name| value_in(&environment, name).map(<[u8]>::to_vec))
    };
    let identity = of(process)?;
    let inherited = of(&Process::read(process.parent)?).is_some();
    let handle = pidfd_open(Pid::from_raw(process.number)?, PidfdFlags::empty()).ok()?;
    (!inherited).then_some((identity, handle))
}
