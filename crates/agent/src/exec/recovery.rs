//! Whether a command that failed is started again. Pure: decides by the reason, by how long each attempt
//! lasted and by how many restarts are left; must not know how an attempt is ended or started.

use std::collections::VecDeque;
use std::time::Duration;

use contract::Reason;
use contract::agent_report::{AgentReport, EARLIER_MAX, EndedAttempt, RESTARTABLE, RunVerdict};
use contract::env;

use crate::settings;

/// After an attempt of this length, a worker that leaves uses up no restart, whatever ended the attempt before.
const FREE_MIN: Duration = Duration::from_secs(60);

/// What the job asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    restarts: u32,
    on: Vec<Reason>,
    /// After an attempt of this length, all restarts are left again.
    reset_after: Option<Duration>,
}

impl Policy {
    /// What the operator set; none where a command is never started again.
    pub(super) fn of_environment() -> Option<Self> {
        Self::of(settings::variable)
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let restarts = variable(env::RESTARTS)?.trim().parse().ok()?;
        let reset_after = variable(env::RESTART_RESET).and_then(|secs| secs.trim().parse().ok());
        let words = variable(env::RESTART_ON);
        let is_on = |reason: &Reason| {
            let named =
                |words: &String| words.split(',').any(|word| word.trim() == reason.as_str());
            words.as_ref().is_none_or(named)
        };
        Some(Self {
            restarts,
            on: RESTARTABLE.into_iter().filter(is_on).collect(),
            reset_after: reset_after.map(Duration::from_secs),
        })
    }

    /// How many restarts are spent before the next one, given how many were before this attempt.
    fn spent(&self, before: u32, lasted: Duration) -> u32 {
        let was_good = self.reset_after.is_some_and(|good| lasted >= good);
        if was_good { 0 } else { before }
    }
}

/// An attempt that may be followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Restart {
    /// The attempt that ended.
    pub(super) ended: EndedAttempt,
    /// The number of the last attempt that there may be.
    pub(super) most: u32,
    /// Restarts that are used up with this one.
    spent: u32,
}

/// The attempts of a command.
#[derive(Debug)]
pub(super) struct Attempts {
    policy: Option<Policy>,
    /// The one that runs.
    number: u32,
    /// Restarts that are used up.
    spent: u32,
    earlier: VecDeque<EndedAttempt>,
    /// When it began, in milliseconds since 1970.
    began_ms: Option<u64>,
    /// When the ranks of the first attempt that got so far had started.
    ranks_started_ms: Option<u64>,
}

impl Attempts {
    pub(super) fn new(policy: Option<Policy>) -> Self {
        Self {
            policy,
            number: 1,
            spent: 0,
            earlier: VecDeque::new(),
            began_ms: None,
            ranks_started_ms: None,
        }
    }

    /// The one that runs begins now.
    pub(super) fn begins(&mut self, now_ms: Option<u64>) {
        self.began_ms = now_ms;
    }

    /// Its ranks had started at this time, if they ever did.
    pub(super) fn heard_of_ranks(&mut self, at_ms: Option<u64>) {
        self.ranks_started_ms = self.ranks_started_ms.or(at_ms);
    }

    /// The job asks for more than one attempt, where that is needed.
    pub(super) fn may_follow(&self) -> bool {
        self.policy.is_some()
    }

    /// A worker that was lost is replaced, so that another attempt can wait for it.
    pub(super) fn waits_for_replacements(&self) -> bool {
        let policy = self.policy.as_ref();
        policy.is_some_and(|policy| policy.on.contains(&Reason::WorkerLost))
    }

    /// The attempt that runs, from 1.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// What its command is told, where it may be one of several.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        if self.policy.is_none() {
            return Vec::new();
        }
        let number = (env::ATTEMPT, self.number.to_string());
        let reason = self.earlier.back().map(|before| {
            let reason = before.reason.as_str().to_owned();
            (env::RESTART_REASON, reason)
        });
        [number].into_iter().chain(reason).collect()
    }

    /// Another attempt, if one may follow on the one that ended so.
    pub(super) fn restart_after(&self, report: &AgentReport, lasted: Duration) -> Option<Restart> {
        let policy = self.policy.as_ref()?;
        let reason = report.restart_reason()?;
        let before = policy.spent(self.spent, lasted);
        let is_planned = report.verdict == RunVerdict::WorkerLeft;
        // Nobody is to blame for a worker that has to leave, unless the program makes it leave at once.
        let before_last = self.earlier.back().map(|attempt| attempt.reason);
        let is_free = is_planned && (lasted >= FREE_MIN || before_last != Some(reason));
        let may_follow = match is_planned {
            true => self.waits_for_replacements() && (is_free || before < policy.restarts),
            false => policy.on.contains(&reason) && before < policy.restarts,
        };
        if !may_follow {
            return None;
        }
        let spent = before + u32::from(!is_free);
        Some(Restart {
            ended: EndedAttempt {
                number: self.number,
                reason,
                seconds: lasted.as_secs(),
                began_ms: self.began_ms,
            },
            most: (self.number + 1).saturating_add(policy.restarts.saturating_sub(spent)),
            spent,
        })
    }

    /// It begins.
    pub(super) fn advance(&mut self, restart: Restart) {
        self.number = self.number.saturating_add(1);
        self.spent = restart.spent;
        self.earlier.push_back(restart.ended);
        if self.earlier.len() > EARLIER_MAX {
            self.earlier.pop_front();
        }
    }

    /// The report of the last attempt, with what is to be said of those before.
    pub(super) fn told(&self, report: AgentReport) -> AgentReport {
        if self.number == 1 {
            return report;
        }
        let (number, earlier) = (self.number, self.earlier_words());
        let message = match report.verdict {
            RunVerdict::Succeeded => format!("attempt {number} succeeded; {earlier}"),
            _ => format!("{}; this was attempt {number}; {earlier}", report.message),
        };
        AgentReport {
            attempts: number,
            earlier: self.earlier.iter().copied().collect(),
            began_ms: self.began_ms,
            ranks_started_ms: self.ranks_started_ms,
            message,
            ..report
        }
    }

    /// The report of the last attempt, when the next one could not begin.
    pub(super) fn blocked(&self, report: AgentReport, why: &str) -> AgentReport {
        let mut report = self.told(report);
        let next = self.number.saturating_add(1);
        // First: a reader may cut the rest off.
        report.message = format!("attempt {next} could not begin: {why}; {}", report.message);
        report
    }

    /// "attempt 1 ended with RankKilled, attempt 2 with CommandFailed"
    fn earlier_words(&self) -> String {
        let words = self.earlier.iter().enumerate().map(|(place, attempt)| {
            let ended = if place == 0 { " ended" } else { "" };
            let EndedAttempt { number, reason, .. } = attempt;
            format!("attempt {number}{ended} with {}", reason.as_str())
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests;
