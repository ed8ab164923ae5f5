//! Reads the agent's report about a run from the termination message of the launcher's container.
//! Where the launcher does not run under the agent there is none.

use contract::Reason;
use contract::agent_report::{self, AgentReport, EndedAttempt, RunVerdict};
use serde_json::{Map, Value};

use crate::observed::{Observed, Pod};

/// The report of the pod's agent, if there is one.
pub(crate) fn of_pod(pod: &Pod) -> Option<AgentReport> {
    read_agent_report(&pod.exit.as_ref()?.message)
}

/// A run that exited with 0 on fewer hosts than asked for: a retry would end the same way.
pub(crate) fn of_undistributed(observed: &Observed) -> Option<AgentReport> {
    let mut reports = observed.launcher_pods.iter().filter_map(of_pod);
    reports.find(|report| report.reason() == Some(Reason::RanksNotDistributed))
}

/// The report in a termination message, in a version that we know.
pub fn read_agent_report(message: &str) -> Option<AgentReport> {
    let line = message.lines().find(|line| line.starts_with('{'))?;
    let report: Map<String, Value> = serde_json::from_str(line).ok()?;
    let text = |key: &str| report.get(key).and_then(Value::as_str);
    let number = |key: &str| report.get(key).and_then(Value::as_u64);
    let code = |key: &str| number(key).and_then(|code| u8::try_from(code).ok());
    let count = |key: &str| number(key).and_then(|count| usize::try_from(count).ok());
    if number(agent_report::VERSION_KEY) != Some(agent_report::VERSION) {
        return None;
    }
    let lost = report.get(agent_report::LOST_KEY).and_then(Value::as_array);
    let lost = lost.into_iter().flatten().filter_map(Value::as_str);
    let ranks = report.get(agent_report::RANKS_PER_HOST_KEY);
    let ranks = ranks.and_then(Value::as_object).into_iter().flatten();
    let ranks = ranks.filter_map(|(host, count)| {
        let count = u32::try_from(count.as_u64()?).ok()?;
        Some((host.clone(), count))
    });
    Some(AgentReport {
        verdict: RunVerdict::from_text(text(agent_report::VERDICT_KEY)?)?,
        exit: code(agent_report::EXIT_KEY)?,
        signal: code(agent_report::SIGNAL_KEY),
        hosts: count(agent_report::HOSTS_KEY).unwrap_or_default(),
        asked: count(agent_report::ASKED_KEY),
        ranks_per_host: ranks.collect(),
        lost: lost.map(str::to_owned).collect(),
        attempts: number(agent_report::ATTEMPTS_KEY)
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
        earlier: earlier(report.get(agent_report::EARLIER_KEY)),
        began_ms: number(agent_report::BEGAN_KEY),
        ranks_started_ms: number(agent_report::RANKS_STARTED_KEY),
        message: text(agent_report::MESSAGE_KEY)
            .unwrap_or_default()
            .to_owned(),
    })
}

/// The attempts before the last one, as far as we know their reasons.
fn earlier(list: Option<&Value>) -> Vec<EndedAttempt> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    let attempts = items.filter_map(|item| {
        let number = item.get(agent_report::ATTEMPT_KEY)?.as_u64()?;
        let reason = item.get(agent_report::REASON_KEY)?.as_str()?;
        Some(EndedAttempt {
            number: u32::try_from(number).ok()?,
            reason: Reason::from_text(reason)?,
            seconds: item.get(agent_report::SECONDS_KEY)?.as_u64()?,
            began_ms: item.get(agent_report::BEGAN_KEY).and_then(Value::as_u64),
        })
    });
    attempts.take(agent_report::EARLIER_MAX).collect()
}

#[cfg(test)]
mod tests {
    use contract::files::TERMINATION_BYTES_MAX;

    use super::*;

    fn report(verdict: RunVerdict) -> AgentReport {
        AgentReport {
            verdict,
            exit: 119,
            signal: Some(9),
            hosts: 2,
            asked: Some(3),
            ranks_per_host: [("w0".into(), 2), ("w1".into(), 1)].into(),
            lost: vec!["w1".into()],
            attempts: 2,
            earlier: vec![EndedAttempt {
                number: 1,
                reason: Reason::RankKilled,
                seconds: 7,
                began_ms: Some(1_763_208_000_250),
            }],
            began_ms: Some(1_763_208_008_000),
            ranks_started_ms: Some(1_763_208_002_500),
            message: "lost w1: \"nothing\" was heard\n\u{1}".into(),
        }
    }

    #[test]
    fn what_the_agent_writes_is_what_is_read() {
        for verdict in RunVerdict::ALL {
            let full = report(verdict);
            let bare = AgentReport {
                signal: None,
                asked: None,
                ranks_per_host: [].into(),
                lost: Vec::new(),
                attempts: 1,
                earlier: Vec::new(),
                began_ms: None,
                ranks_started_ms: None,
                message: String::new(),
                ..full.clone()
            };
            for written in [full, bare] {
                assert_eq!(read_agent_report(&written.to_json()), Some(written));
            }
        }
    }

    #[test]
    fn a_long_report_stays_within_its_limit_and_readable() {
        let names = |n: u32| format!("\"\\\u{1}ä{n}{}", "x".repeat(300));
        let long = AgentReport {
            ranks_per_host: (0..5000).map(|n| (names(n), n)).collect(),
            lost: (0..5000).map(names).collect(),
            message: "\"ä\u{2}".repeat(5000),
            ..report(RunVerdict::WorkerLost)
        };
        let line = long.to_json();
        assert!(line.len() <= TERMINATION_BYTES_MAX, "{}", line.len());
        let read = read_agent_report(&line).unwrap();
        assert_eq!(read.lost.len(), 16);
        assert!(long.message.starts_with(&read.message) && !read.message.is_empty());
    }
}
