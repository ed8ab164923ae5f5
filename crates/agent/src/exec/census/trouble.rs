//! What a healthy run does not show: a worker that was lost, a daemon or rank that ended badly.
//! Decides which of several troubles explains the others, who is to blame, and the words for it.
//! Must not know what the launcher itself said.

use std::time::Duration;

use contract::mpi::MpiLauncher;

use crate::frame::{Ending, RankState};
use crate::session_record::{SessionRecord, State};

/// A launcher that notices trouble by itself ends by then, and says more than we can.
const PATIENCE: Duration = Duration::from_secs(2);
/// Ranks leave MPI together, but not in the same moment.
pub(super) const VANISHED_PATIENCE: Duration = Duration::from_secs(6);
/// Illegal instruction, bus error, arithmetic, memory.
const CRASHES: [u8; 4] = [4, 7, 8, 11];
/// More workers are not named one by one.
const NAMED_MAX: usize = 16;
const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;

/// Something that a healthy run does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Trouble {
    Lost {
        host: String,
        why: String,
    },
    Unreachable {
        host: String,
        why: String,
    },
    /// Shims were killed and could not say more. Open MPI 5 kills all of them when it has lost one
    /// worker.
    ShimGone {
        hosts: Vec<String>,
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
    /// A rank is gone while others are still in MPI: they wait for it, without end.
    Vanished {
        host: String,
        rank: u32,
    },
}

impl Trouble {
    /// What comes first explains the others: ranks die of a lost worker, not the reverse; launchers
    /// end the other ranks by signal when one has failed.
    pub(super) fn weight(&self) -> u8 {
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
    pub(in crate::exec) fn patience(&self) -> Duration {
        match self {
            Self::Vanished { .. } => VANISHED_PATIENCE,
            _ => PATIENCE,
        }
    }

    pub(in crate::exec) fn sentence(&self) -> String {
        match self {
            Self::Lost { host, why } => format!("worker {host} was lost: {why}"),
            Self::Unreachable { host, why } => format!("worker {host} could not be used: {why}"),
            Self::ShimGone { hosts } => match hosts.as_slice() {
                [host] => format!("the connection to worker {host} was killed"),
                hosts => {
                    let named = hosts.iter().take(NAMED_MAX).map(String::as_str);
                    let named = named.collect::<Vec<_>>().join(", ");
                    let more = if hosts.len() > NAMED_MAX { ", …" } else { "" };
                    format!("the connections to workers {named}{more} were killed")
                }
            },
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
    pub(super) fn explains(&self, code: u8) -> bool {
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

/// What became of a session, if that is no good.
pub(super) fn trouble_of(
    record: &SessionRecord,
    shim_lives: impl Fn(u32) -> bool,
) -> Option<Trouble> {
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
            Some(Trouble::ShimGone { hosts: vec![host] })
        }
        _ => None,
    }
}

/// Nobody else did that to the rank: it crashed, or it was killed where the launcher does not kill
/// ranks before it has asked them to end, and has waited.
pub(super) fn is_own_doing(trouble: &Trouble, record: &SessionRecord, kills_at_once: bool) -> bool {
    match trouble {
        Trouble::Rank {
            host,
            ending: Ending::Signal(signal),
            ..
        } if *host == record.host => {
            let asks = |launcher: &MpiLauncher| !launcher.kills_at_once && !kills_at_once;
            let asks_first = launcher(record).is_some_and(asks);
            CRASHES.contains(signal) || (*signal == SIGKILL && asks_first)
        }
        _ => false,
    }
}

fn launcher(record: &SessionRecord) -> Option<&'static MpiLauncher> {
    MpiLauncher::of_daemon(record.daemon.as_deref()?)
}

/// Less of it first: what a rank did by itself, what it may have done, what was done to it, and what it says of
/// others.
pub(super) fn blame(trouble: &Trouble, record: &SessionRecord, kills_at_once: bool) -> u8 {
    if is_own_doing(trouble, record, kills_at_once) {
        return 0;
    }
    match trouble {
        Trouble::Rank {
            ending: Ending::Signal(SIGKILL | SIGTERM),
            ..
        } => 2,
        Trouble::Rank {
            ending: Ending::Code(code),
            ..
        } if tells_of_another(record, *code) => 3,
        _ => 1,
    }
}

/// A rank ends with this code when another one is gone.
pub(super) fn tells_of_another(record: &SessionRecord, code: u8) -> bool {
    launcher(record).is_some_and(|launcher| launcher.peer_lost_code == Some(code))
}

pub(super) fn failed_rank(record: &SessionRecord, rank: u32, state: RankState) -> Option<Trouble> {
    match state {
        RankState::Ended(ending) if ending != Ending::Code(0) => Some(Trouble::Rank {
            host: record.host.clone(),
            rank,
            ending,
        }),
        _ => None,
    }
}
