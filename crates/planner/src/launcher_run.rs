//! One run of a launcher's container, as its pod's status and the agent's report tell of it. A run has several
//! attempts where the agent started the program again. Decides how they are counted within the run.

use contract::Reason;
use contract::agent_report::{AgentReport, EARLIER_MAX};
use jiff::{SignedDuration, Timestamp};

/// A run of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LauncherRun {
    /// When the container began.
    pub began_at: Timestamp,
    /// How many runs of the container the pod had before.
    pub runs_before: u32,
    /// How it ended, if it has.
    pub end: Option<Box<RunEnd>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// When.
    pub at: Option<Timestamp>,
    /// How often the program was started in it, from 1.
    pub attempts: u32,
    /// When the last attempt began, where there were several.
    pub last_began_at: Option<Timestamp>,
    /// Why the last attempt ended; none if it succeeded.
    pub reason: Option<Reason>,
    /// The attempts before the last one.
    pub earlier: Vec<EarlierAttempt>,
    /// When ranks first ran on all hosts that took part.
    pub ranks_started_at: Option<Timestamp>,
}

/// An attempt that was followed by another in the same container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierAttempt {
    /// Which one of the run, from 1.
    pub number: u32,
    /// When it began.
    pub began_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why.
    pub reason: Reason,
}

impl RunEnd {
    /// Of a container that ended at this time with this code, and of which the kubelet and the agent said this.
    pub fn new(
        at: Option<Timestamp>,
        code: i32,
        kubelet_reason: &str,
        said: Option<&AgentReport>,
    ) -> Self {
        let otherwise = match (code, kubelet_reason) {
            (0, _) => None,
            (_, "OOMKilled") => Some(Reason::OutOfMemory),
            (127, _) => Some(Reason::CommandNotFound),
            _ => Some(Reason::CommandFailed),
        };
        let attempts = said.map_or(1, |said| said.attempts.clamp(1, NUMBER_MAX));
        let earlier = said.map_or(&[][..], |said| &said.earlier);
        let earlier = earlier
            .iter()
            .filter(|one| (1..attempts).contains(&one.number));
        Self {
            at,
            attempts,
            last_began_at: said.and_then(|said| moment(said.began_ms?)),
            reason: said.and_then(AgentReport::reason).or(otherwise),
            earlier: earlier
                .take(EARLIER_MAX)
                .map(|one| {
                    let began_at = one.began_ms.and_then(moment);
                    let length = i64::try_from(one.seconds).unwrap_or(i64::MAX);
                    let length = SignedDuration::from_secs(length);
                    EarlierAttempt {
                        number: one.number,
                        began_at,
                        ended_at: began_at.and_then(|at| at.checked_add(length).ok()),
                        reason: one.reason,
                    }
                })
                .collect(),
            ranks_started_at: said.and_then(|said| moment(said.ranks_started_ms?)),
        }
    }
}

/// A program that is started more often than this is not counted further. Nothing that people see is.
const NUMBER_MAX: u32 = 1 << 20;

/// The time that so many milliseconds since 1970 stand for.
fn moment(millis: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok()
}
