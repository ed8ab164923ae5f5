//! What the agent in the launcher pod says of the run: hosts that took part, a worker that was lost,
//! a rank that failed. It is read from the container's last words; where the launcher does not run
//! under the agent there are none.

use contract::Reason;
use serde::Deserialize;

use crate::observed::{Observed, Pod};

/// The agent's words, as it writes them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct AgentReport {
    /// Version of the words.
    muster: u32,
    verdict: String,
    exit: i32,
    /// Of the rank that failed first, where it was ended by one.
    #[serde(default)]
    signal: Option<i32>,
    #[serde(default)]
    pub(crate) message: String,
}

/// Words of a version that is not ours say nothing.
const VERSION: u32 = 1;
/// A shell's exit code of a program that is not there.
const NOT_FOUND: i32 = 127;
/// A shell's exit code of a program that was ended by a signal is this and the signal's number.
const SIGNALLED: i32 = 128;

/// What the pod's agent says, if it says anything.
pub(crate) fn of_pod(pod: &Pod) -> Option<AgentReport> {
    let exit = pod.exit.as_ref()?;
    let words = exit.message.lines().find(|line| line.starts_with('{'))?;
    let report: AgentReport = serde_json::from_str(words).ok()?;
    (report.muster == VERSION).then_some(report)
}

/// A run that ended well, on fewer hosts than asked for: another try would end the same way.
pub(crate) fn of_undistributed(observed: &Observed) -> Option<AgentReport> {
    let mut said = observed.launcher_pods.iter().filter_map(of_pod);
    said.find(|said| said.reason() == Some(Reason::RanksNotDistributed))
}

impl AgentReport {
    /// The one word for it; none when the program failed and the agent knows no more than that.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self.verdict.as_str() {
            "RanksNotDistributed" => Some(Reason::RanksNotDistributed),
            "WorkerLost" => Some(Reason::WorkerLost),
            "WorkerUnreachable" => Some(Reason::Unreachable),
            "Failed" if self.exit == NOT_FOUND => Some(Reason::CommandNotFound),
            "RankFailed" if self.signal.is_some() => Some(Reason::RankKilled),
            "RankFailed" | "Failed" if self.exit > SIGNALLED && self.exit < 255 => {
                Some(Reason::RankKilled)
            }
            "RankFailed" => Some(Reason::CommandFailed),
            _ => None,
        }
    }
}
