//! The agent's report about a run: one line of JSON, which it writes as the termination message of
//! the launcher's container and the operator reads there. Decides its words, its keys, its size, and
//! the reason that it stands for; must not know how the agent found out.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::exit_code::{NOT_FOUND, SHIM_FAILED, SIGNALLED};
use crate::files::TERMINATION_BYTES_MAX;
use crate::reason::Reason;
use crate::vocabulary::vocabulary;

/// Version of the report. A reader ignores other versions.
pub const VERSION: u64 = 1;
/// Key of [`VERSION`].
pub const VERSION_KEY: &str = "muster";
/// Key of [`AgentReport::verdict`].
pub const VERDICT_KEY: &str = "verdict";
/// Key of [`AgentReport::exit`].
pub const EXIT_KEY: &str = "exit";
/// Key of [`AgentReport::signal`].
pub const SIGNAL_KEY: &str = "signal";
/// Key of [`AgentReport::hosts`].
pub const HOSTS_KEY: &str = "hosts";
/// Key of [`AgentReport::asked`].
pub const ASKED_KEY: &str = "asked";
/// Key of [`AgentReport::ranks_per_host`].
pub const RANKS_PER_HOST_KEY: &str = "ranksPerHost";
/// Key of [`AgentReport::lost`].
pub const LOST_KEY: &str = "lost";
/// Key of [`AgentReport::attempts`].
pub const ATTEMPTS_KEY: &str = "attempts";
/// Key of [`AgentReport::earlier`].
pub const EARLIER_KEY: &str = "earlier";
/// Key of [`EndedAttempt::number`].
pub const ATTEMPT_KEY: &str = "attempt";
/// Key of [`EndedAttempt::reason`].
pub const REASON_KEY: &str = "reason";
/// Key of [`EndedAttempt::seconds`].
pub const SECONDS_KEY: &str = "seconds";
/// Key of [`AgentReport::began_ms`] and of [`EndedAttempt::began_ms`].
pub const BEGAN_KEY: &str = "beganMs";
/// Key of [`AgentReport::ranks_started_ms`].
pub const RANKS_STARTED_KEY: &str = "ranksStartedMs";
/// Key of [`AgentReport::message`].
pub const MESSAGE_KEY: &str = "message";

/// More hosts than this are not listed one by one.
const LISTED_MAX: usize = 16;
/// Longest host name that DNS knows; a list of names stays within the line.
const NAME_BYTES_MAX: usize = 64;

/// Attempts before the last one that a report lists.
pub const EARLIER_MAX: usize = 5;

/// Reasons for which the agent can restart a run in place: all that it can tell by itself and that may
/// be over at the next attempt.
pub const RESTARTABLE: [Reason; 4] = [
    Reason::CommandFailed,
    Reason::RankKilled,
    Reason::WorkerLost,
    Reason::Unreachable,
];

vocabulary! {
    /// How a run ended.
    pub enum RunVerdict {
        /// The command succeeded.
        Succeeded,
        /// The command failed, and nothing more is known.
        Failed,
        /// A rank failed and the launcher went on regardless.
        RankFailed,
        /// A worker, its daemon or its connection ended before the run did.
        WorkerLost,
        /// A worker was told to leave its node, and the run was stopped for it.
        WorkerLeft,
        /// A worker could not be called at all.
        WorkerUnreachable,
        /// The command exited with 0, on fewer hosts than the job asked for.
        RanksNotDistributed,
        /// A signal asked the run to end.
        Stopped,
        /// Some workers never answered.
        GateDeadline,
    }
}

/// What the agent knows about a run that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentReport {
    /// How it ended.
    pub verdict: RunVerdict,
    /// Exit code of the launcher's container.
    pub exit: u8,
    /// The signal that ended a rank, where that is the cause.
    pub signal: Option<u8>,
    /// How many hosts took part.
    pub hosts: usize,
    /// How many hosts the job asked for.
    pub asked: Option<usize>,
    /// Ranks of the hosts where the number is certain.
    pub ranks_per_host: BTreeMap<String, u32>,
    /// Workers that were lost or could not be called.
    pub lost: Vec<String>,
    /// How often the command was started; the rest of the report is about the last time.
    pub attempts: u32,
    /// How the attempts before ended: the last [`EARLIER_MAX`] of them.
    pub earlier: Vec<EndedAttempt>,
    /// When the last attempt began, in milliseconds since 1970, where there were several.
    pub began_ms: Option<u64>,
    /// When the last host that took part first had a rank, in the same. Of several attempts, the first that
    /// got so far.
    pub ranks_started_ms: Option<u64>,
    /// One sentence for people.
    pub message: String,
}

/// An attempt that was followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedAttempt {
    /// Which one, from 1.
    pub number: u32,
    /// Why it ended: one of [`RESTARTABLE`], or a worker left.
    pub reason: Reason,
    /// How long it lasted.
    pub seconds: u64,
    /// When it began, in milliseconds since 1970.
    pub began_ms: Option<u64>,
}

impl AgentReport {
    /// About a run in which no host took part.
    pub fn new(verdict: RunVerdict, exit: u8, message: String) -> Self {
        Self {
            verdict,
            exit,
            signal: None,
            hosts: 0,
            asked: None,
            ranks_per_host: BTreeMap::new(),
            lost: Vec::new(),
            attempts: 1,
            earlier: Vec::new(),
            began_ms: None,
            ranks_started_ms: None,
            message,
        }
    }

    /// The reason for which the run may be restarted in place. None for a run that was told to stop, or
    /// that would end the same way again.
    pub fn restart_reason(&self) -> Option<Reason> {
        let reason = match self.verdict {
            RunVerdict::WorkerLeft => return self.reason(),
            RunVerdict::Failed => self.reason().or(Some(Reason::CommandFailed)),
            _ => self.reason(),
        };
        reason.filter(|reason| RESTARTABLE.contains(reason))
    }

    /// The reason that it stands for; none when the agent knows no more than the container's exit code.
    pub fn reason(&self) -> Option<Reason> {
        let by_signal = self.exit > SIGNALLED && self.exit < SHIM_FAILED;
        match self.verdict {
            RunVerdict::RanksNotDistributed => Some(Reason::RanksNotDistributed),
            RunVerdict::WorkerLost => Some(Reason::WorkerLost),
            RunVerdict::WorkerLeft => Some(Reason::Evicted),
            RunVerdict::WorkerUnreachable => Some(Reason::Unreachable),
            RunVerdict::RankFailed if by_signal || self.signal.is_some() => {
                Some(Reason::RankKilled)
            }
            RunVerdict::RankFailed => Some(Reason::CommandFailed),
            RunVerdict::Failed if self.exit == NOT_FOUND => Some(Reason::CommandNotFound),
            RunVerdict::Failed if by_signal => Some(Reason::RankKilled),
            RunVerdict::Failed
            | RunVerdict::Succeeded
            | RunVerdict::Stopped
            | RunVerdict::GateDeadline => None,
        }
    }

    /// The line, within [`TERMINATION_BYTES_MAX`] whatever names and messages there are: the message is
    /// cut.
    pub fn to_json(&self) -> String {
        let mut line = String::from("{");
        put(&mut line, VERSION_KEY, VERSION);
        put(&mut line, VERDICT_KEY, quoted(self.verdict.as_str()));
        put(&mut line, EXIT_KEY, self.exit);
        put(&mut line, HOSTS_KEY, self.hosts);
        if let Some(signal) = self.signal {
            put(&mut line, SIGNAL_KEY, signal);
        }
        if let Some(asked) = self.asked {
            put(&mut line, ASKED_KEY, asked);
        }
        let ranks = self.ranks_per_host.iter().take(LISTED_MAX);
        let ranks = ranks.map(|(host, count)| format!("{}:{count}", quoted(host)));
        let lost = self.lost.iter().take(LISTED_MAX).map(|host| quoted(host));
        put(
            &mut line,
            RANKS_PER_HOST_KEY,
            format!("{{{}}}", joined(ranks)),
        );
        put(&mut line, LOST_KEY, format!("[{}]", joined(lost)));
        if self.attempts > 1 {
            put(&mut line, ATTEMPTS_KEY, self.attempts);
            let earlier = self.earlier.iter().rev().take(EARLIER_MAX).rev();
            let earlier = joined(earlier.map(|attempt| attempt.to_json()));
            put(&mut line, EARLIER_KEY, format!("[{earlier}]"));
        }
        for (key, moment) in [
            (BEGAN_KEY, self.began_ms),
            (RANKS_STARTED_KEY, self.ranks_started_ms),
        ] {
            if let Some(moment) = moment {
                put(&mut line, key, moment);
            }
        }
        let around = format!(",\"{MESSAGE_KEY}\":\"\"}}\n").len();
        let room = TERMINATION_BYTES_MAX.saturating_sub(line.len() + around);
        put(&mut line, MESSAGE_KEY, quoted_within(&self.message, room));
        line + "}\n"
    }
}

/// How the line begins that separates an attempt from the one before in the launcher's log; why that one
/// ended follows.
pub fn attempt_line(number: u32, most: u32) -> String {
    format!("{ATTEMPT_LINE}{number} of at most {most}: ")
}

/// The attempt that begins with a line of the launcher's log, if one does.
pub fn begun_attempt(line: &str) -> Option<u32> {
    let (number, rest) = line.strip_prefix(ATTEMPT_LINE)?.split_once(' ')?;
    rest.starts_with("of at most ").then_some(())?;
    number.parse().ok()
}

const ATTEMPT_LINE: &str = "muster-agent: attempt ";

impl EndedAttempt {
    fn to_json(self) -> String {
        let mut object = String::from("{");
        put(&mut object, ATTEMPT_KEY, self.number);
        put(&mut object, REASON_KEY, quoted(self.reason.as_str()));
        put(&mut object, SECONDS_KEY, self.seconds);
        if let Some(began_ms) = self.began_ms {
            put(&mut object, BEGAN_KEY, began_ms);
        }
        object + "}"
    }
}

/// Appends a member to an object that is being written.
fn put(line: &mut String, key: &str, value: impl std::fmt::Display) {
    let comma = if line.ends_with('{') { "" } else { "," };
    write!(line, "{comma}\"{key}\":{value}").expect("a String takes all text");
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn quoted(name: &str) -> String {
    quoted_within(name, NAME_BYTES_MAX)
}

/// A JSON string with at most this many bytes between its quotes.
fn quoted_within(text: &str, room: usize) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        let mut next = String::new();
        match char {
            '"' | '\\' => next.extend(['\\', char]),
            '\n' => next += "\\n",
            char if u32::from(char) < 0x20 => {
                write!(next, "\\u{:04x}", u32::from(char)).expect("a String takes all text");
            }
            char => next.push(char),
        }
        if quoted.len() - 1 + next.len() > room {
            break;
        }
        quoted += &next;
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads the termination message of a launcher sees this.
    #[test]
    fn it_is_one_line_of_json() {
        let report = AgentReport {
            signal: Some(9),
            hosts: 2,
            asked: Some(3),
            ranks_per_host: [("w0".into(), 2), ("w1".into(), 1)].into(),
            lost: vec!["w1".into()],
            message: "lost w1: \"nothing\" was heard\n\u{1}".into(),
            ..AgentReport::new(RunVerdict::WorkerLost, 119, String::new())
        };
        assert_eq!(
            report.to_json(),
            concat!(
                r#"{"muster":1,"verdict":"WorkerLost","exit":119,"hosts":2,"signal":9,"asked":3,"#,
                r#""ranksPerHost":{"w0":2,"w1":1},"lost":["w1"],"#,
                r#""message":"lost w1: \"nothing\" was heard\n\u0001"}"#,
                "\n"
            )
        );
    }

    #[test]
    fn attempts_are_listed_only_where_there_were_several() {
        let attempt = |number| EndedAttempt {
            number,
            reason: Reason::RankKilled,
            seconds: 60,
            began_ms: (number == 7).then_some(1_763_208_000_250),
        };
        let report = AgentReport {
            attempts: 8,
            earlier: (1..8).map(attempt).collect(),
            began_ms: Some(1_763_208_061_500),
            ranks_started_ms: Some(1_763_208_062_000),
            ..AgentReport::new(RunVerdict::Succeeded, 0, String::new())
        };
        let line = report.to_json();
        assert!(
            line.contains(r#""attempts":8,"earlier":[{"attempt":3,"#),
            "{line}"
        );
        assert!(
            line.contains(concat!(
                r#"{"attempt":7,"reason":"RankKilled","seconds":60,"beganMs":1763208000250}],"#,
                r#""beganMs":1763208061500,"ranksStartedMs":1763208062000,"message""#
            )),
            "{line}"
        );
        let once = AgentReport::new(RunVerdict::Succeeded, 0, String::new());
        assert!(!once.to_json().contains("attempt"));
    }

    #[test]
    fn lines_that_separate_attempts_are_recognised() {
        let line = format!("{}RankKilled: rank 1", attempt_line(12, 14));
        assert_eq!(begun_attempt(&line), Some(12));
        for other in [
            "attempt 2",
            "muster-agent: attempt 2 was good",
            "muster-agent: hi",
        ] {
            assert_eq!(begun_attempt(other), None, "{other}");
        }
    }

    /// What another attempt cannot change is not restarted.
    #[test]
    fn what_may_be_over_at_the_next_attempt_is_restartable() {
        use RunVerdict::{
            Failed, GateDeadline, RankFailed, RanksNotDistributed, Stopped, Succeeded, WorkerLeft,
            WorkerLost, WorkerUnreachable,
        };
        for (verdict, exit, reason) in [
            (Succeeded, 0, None),
            (Failed, 3, Some(Reason::CommandFailed)),
            (Failed, 137, Some(Reason::RankKilled)),
            (Failed, NOT_FOUND, None),
            (RankFailed, 3, Some(Reason::CommandFailed)),
            (RankFailed, 137, Some(Reason::RankKilled)),
            (WorkerLost, 119, Some(Reason::WorkerLost)),
            (WorkerLeft, 119, Some(Reason::Evicted)),
            (WorkerUnreachable, 119, Some(Reason::Unreachable)),
            (RanksNotDistributed, 118, None),
            (Stopped, 143, None),
            (GateDeadline, 117, None),
        ] {
            let report = AgentReport::new(verdict, exit, String::new());
            assert_eq!(report.restart_reason(), reason, "{verdict:?} {exit}");
        }
    }

    #[test]
    fn every_verdict_is_read_back() {
        for verdict in RunVerdict::ALL {
            assert_eq!(RunVerdict::from_text(verdict.as_str()), Some(verdict));
        }
    }
}
