//! Findings as people and programs read them: an excerpt with the place underlined, or JSON.

use serde_json::{Value, json};

use super::{Finding, Severity};
use crate::manifest::Manifest;
use crate::out::{BOLD, RED, YELLOW, painted};

/// Each finding with its line of the file.
pub(crate) fn as_text(manifest: &Manifest, findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| block(manifest, finding))
        .collect()
}

fn block(manifest: &Manifest, finding: &Finding) -> String {
    let colour = match finding.severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
    };
    let head = format!("{}[{}]", finding.severity.as_str(), finding.reason);
    let mut text = format!("{}: {}\n", painted(&head, colour), finding.message);
    let line = finding
        .mark
        .and_then(|mark| manifest.text.lines().nth(mark.line.saturating_sub(1)));
    if let (Some(mark), Some(line)) = (finding.mark, line) {
        let number = mark.line.to_string();
        let margin = " ".repeat(number.len());
        // What is longer than its line (a block) is marked up to the end of the line.
        let room = line
            .chars()
            .count()
            .saturating_sub(mark.column.saturating_sub(1));
        let carets = "^".repeat(mark.width.clamp(1, room.max(1)));
        let indent: String = line
            .chars()
            .take(mark.column.saturating_sub(1))
            .map(|char| if char == '\t' { '\t' } else { ' ' })
            .collect();
        text += &format!(
            "{margin} {} {}:{}:{}\n",
            painted("-->", BOLD),
            manifest.name,
            mark.line,
            mark.column
        );
        text += &format!("{number} | {line}\n");
        let note = painted(&format!("{carets} {}", finding.label), colour);
        text += format!("{margin} | {indent}{note}").trim_end();
        text.push('\n');
    }
    if !finding.advice.is_empty() {
        text += &format!("  do: {}\n", finding.advice);
    }
    text.push('\n');
    text
}

/// The same for programs.
pub(crate) fn as_json(manifest: &Manifest, findings: &[Finding]) -> Value {
    let items: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "severity": finding.severity.as_str(),
                "reason": finding.reason,
                "message": finding.message,
                "label": finding.label,
                "advice": finding.advice,
                "line": finding.mark.map(|mark| mark.line),
                "column": finding.mark.map(|mark| mark.column),
            })
        })
        .collect();
    json!({"schema": "muster/v1", "file": manifest.name, "findings": items})
}
