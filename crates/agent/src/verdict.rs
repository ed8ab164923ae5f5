//! The one line that a pod leaves behind: what became of the run, for the operator to read from the
//! container's termination message. Decides its words and its size; must not know how it was found.

use std::collections::BTreeMap;
use std::fmt::Write;

use contract::env;
use contract::files::{self, TERMINATION_BYTES_MAX};

use crate::settings;

/// More hosts than this are not listed one by one.
const LISTED_MAX: usize = 16;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Succeeded,
    /// The command failed, and nothing says more.
    Failed,
    /// A rank failed and the launcher went on regardless.
    RankFailed,
    /// A worker, its daemon or its connection ended before the run did.
    WorkerLost,
    /// A worker could not be called at all.
    WorkerUnreachable,
    /// The command said 0, on fewer hosts than the job asked for.
    RanksNotDistributed,
    /// The run was told to end.
    Stopped,
    /// Some workers never answered.
    GateDeadline,
}

/// One line of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) kind: Kind,
    pub(crate) exit: u8,
    /// By which a rank was ended, where that is the cause.
    pub(crate) signal: Option<u8>,
    /// Hosts that took part.
    pub(crate) hosts: usize,
    pub(crate) asked: Option<usize>,
    /// Of hosts where it is certain.
    pub(crate) ranks_per_host: BTreeMap<String, u32>,
    pub(crate) lost: Vec<String>,
    pub(crate) message: String,
}

impl Verdict {
    /// Within the limit, whatever names and messages there are: the message gives way.
    pub(crate) fn to_json(&self) -> String {
        let mut line = format!(
            "{{\"muster\":1,\"verdict\":\"{:?}\",\"exit\":{},\"hosts\":{}",
            self.kind, self.exit, self.hosts
        );
        if let Some(signal) = self.signal {
            line += &format!(",\"signal\":{signal}");
        }
        if let Some(asked) = self.asked {
            line += &format!(",\"asked\":{asked}");
        }
        let ranks = self.ranks_per_host.iter().take(LISTED_MAX);
        let ranks = ranks.map(|(host, count)| format!("{}:{count}", quoted(host)));
        let lost = self.lost.iter().take(LISTED_MAX).map(|host| quoted(host));
        line += &format!(",\"ranksPerHost\":{{{}}}", joined(ranks));
        line += &format!(",\"lost\":[{}]", joined(lost));
        let room = TERMINATION_BYTES_MAX.saturating_sub(line.len() + ",\"message\":\"\"}\n".len());
        line + ",\"message\":" + &quoted_within(&self.message, room) + "}\n"
    }

    /// Leaves the verdict for the operator.
    pub(crate) fn write(&self) {
        write_termination_log(&self.to_json());
    }
}

/// Writes where the kubelet looks. Outside of a pod there is no such file, and nobody who reads it.
pub(crate) fn write_termination_log(text: &str) {
    let file = settings::path(env::TERMINATION_LOG, files::TERMINATION_LOG);
    if let Err(error) = std::fs::write(&file, text)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("muster-agent: cannot write {}: {error}", file.display());
    }
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// Longest host name that DNS knows; a list of names stays within the line.
const NAME_BYTES_MAX: usize = 64;

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
    use serde_json::json;

    fn verdict() -> Verdict {
        Verdict {
            kind: Kind::WorkerLost,
            exit: 119,
            signal: Some(9),
            hosts: 2,
            asked: Some(3),
            ranks_per_host: [("w0".into(), 2), ("w1".into(), 1)].into(),
            lost: vec!["w1".into()],
            message: "lost w1: \"nothing\" was heard\n\u{1}".into(),
        }
    }

    #[test]
    fn it_is_the_json_that_was_agreed_on() {
        let value: serde_json::Value = serde_json::from_str(&verdict().to_json()).unwrap();
        assert_eq!(
            value,
            json!({
                "muster": 1, "verdict": "WorkerLost", "exit": 119, "signal": 9, "hosts": 2, "asked": 3,
                "ranksPerHost": {"w0": 2, "w1": 1}, "lost": ["w1"],
                "message": "lost w1: \"nothing\" was heard\n\u{1}",
            })
        );
    }

    #[test]
    fn it_stays_within_its_limit_and_valid() {
        let names = |n: usize| format!("\"\\\u{1}ä{n}{}", "x".repeat(300));
        let long = Verdict {
            ranks_per_host: (0..5000).map(|n| (names(n), 2)).collect(),
            lost: (0..5000).map(names).collect(),
            message: "\"ä\u{2}".repeat(5000),
            ..verdict()
        };
        let line = long.to_json();
        assert!(line.len() <= TERMINATION_BYTES_MAX, "{}", line.len());
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["lost"].as_array().unwrap().len(), 16);
        assert!(!value["message"].as_str().unwrap().is_empty());
    }
}
