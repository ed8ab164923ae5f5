//! The pages of docs/reference that are lists of what the code has: reasons and exit codes. Decides how a list looks.
//! What the words mean is written where they are declared.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use contract::Reason;
use contract::reason::{Evidence, Fault, Stage};

use crate::root;

pub(crate) const REASONS: &str = "docs/reference/reasons.md";
pub(crate) const EXIT_CODES: &str = "docs/reference/exit-codes.md";

const WRITTEN: &str = "<!-- Written by `cargo xtask codegen`; do not edit. -->\n";

/// All reasons, by the alphabet.
pub(crate) fn reasons() -> String {
    let mut text = format!(
        "# Reasons\n\n{WRITTEN}\nA job that waits, or that failed, has one of the reasons below in `status.muster.reason`. Events and \
         `muster why` use the\nsame reasons. `status.muster.message` names the pod, the object or the host. \
         [Debug a failed job](../how-to/debug-a-failed-job.md)\nshows how to use reasons.\n"
    );
    let mut all = Reason::ALL;
    all.sort_by_key(|reason| reason.as_str());
    for reason in all {
        let progress = match (reason.stage(), reason.is_retryable()) {
            (Stage::Waiting | Stage::Blocked, true) => {
                "The job continues by itself when the cause is gone."
            }
            (Stage::Waiting | Stage::Blocked, false) => {
                "The job waits until somebody changes something."
            }
            (Stage::Ended, true) => {
                "The job is over; the same job may succeed if it is submitted again."
            }
            (Stage::Ended, false) => {
                "The job is over; without a change, it would end in the same way again."
            }
        };
        let look = match reason.evidence() {
            Evidence::LauncherLog => "the launcher's log: `muster logs NAME --launcher`",
            Evidence::WorkerLog => "the workers' logs: `muster logs NAME --worker 0`",
            Evidence::Spec => "the job's file: `muster lint FILE`",
            Evidence::Status => "the job's status and events: `muster describe NAME`",
        };
        let who = match reason.fault() {
            None => "nobody has to",
            Some(Fault::User) => "whoever wrote the job",
            Some(Fault::Cluster) => "whoever runs the cluster",
            Some(Fault::Platform) => "whoever sets the rules of the namespace",
        };
        let (word, meaning) = (reason.as_str(), reason.meaning());
        let advice = reason.advice();
        writeln!(
            text,
            "\n## {word}\n\n{meaning} {progress}\n\n- **Do**: {advice}.\n- **Look at** {look}.\n- **Who can act**: \
             {who}."
        )
        .expect("a string takes every line");
    }
    text
}

/// The exit codes of the tool and of the agent, as their sources declare them.
pub(crate) fn exit_codes() -> Result<String> {
    let mut text = format!(
        "# Exit codes\n\n{WRITTEN}\n`muster run`, `muster wait` and `muster submit --wait` exit with the code of the job's program. \
         With a code\nfrom 120 to 125, the program is not the cause. A program that a signal ended has 128 plus the number of the \
         signal.\n\n## muster\n\n"
    );
    text += &table("crates/cli/src/exit.rs")?;
    text += "\n## muster-agent\n\nThe containers that the operator adds to pods end with these codes. The program's own code passes \
             through.\n\n";
    text += &table("crates/contract/src/exit_code.rs")?;
    Ok(text)
}

/// One row for each constant of a source file: its value and its comment.
fn table(file: &str) -> Result<String> {
    let source =
        fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
    let (mut rows, mut comment, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for line in source.lines() {
        if let Some(words) = line.strip_prefix("/// ") {
            comment.push(words);
        } else if let Some((name, value)) = constant(line) {
            let value = value_of(value, &values).with_context(|| format!("{file}: `{line}`"))?;
            values.push((name, value));
            rows.push((value, comment.join(" ")));
            comment.clear();
        } else {
            comment.clear();
        }
    }
    ensure!(!rows.is_empty(), "{file} declares no exit code");
    rows.sort();
    let rows = rows
        .iter()
        .map(|(value, comment)| format!("| {value} | {comment} |\n"));
    Ok(format!(
        "| code | |\n|---|---|\n{}",
        rows.collect::<String>()
    ))
}

/// Name and value of `pub const NAME: u8 = VALUE;`.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("const ")?;
    let (name, value) = rest.split_once(": u8 = ")?;
    Some((name, value.strip_suffix(';')?))
}

/// A number, or the sum of a constant and one.
fn value_of(text: &str, known: &[(&str, u8)]) -> Option<u8> {
    text.split(" + ")
        .map(|part| match part.parse() {
            Ok(number) => Some(number),
            Err(_) => known
                .iter()
                .find(|(name, _)| *name == part)
                .map(|known| known.1),
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_and_every_exit_code_is_on_its_page() -> Result<()> {
        let reasons = reasons();
        for reason in Reason::ALL {
            assert!(
                reasons.contains(&format!("\n## {}\n", reason.as_str())),
                "{}",
                reason.as_str()
            );
        }
        // `muster logs NAME` alone is the launcher's log.
        assert!(reasons.contains("the workers' logs: `muster logs NAME --worker 0`"));
        let codes = exit_codes()?;
        for row in ["| 130 | Ctrl-C. |", "| 118 | `exec`: the command succeeded"] {
            assert!(codes.contains(row), "{row} is not in\n{codes}");
        }
        Ok(())
    }
}
