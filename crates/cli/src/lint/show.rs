//! Findings as people and programs read them: an excerpt with the place underlined, or JSON.

use serde_json::{Value, json};

use super::{Finding, Severity};
use crate::manifest::Manifest;
use crate::out::{BOLD, RED, YELLOW, painted};

/// A longer line, or a longer message, is cut.
const LINE_MAX: usize = 400;
/// What is shown before the mark of a line that is cut.
const BEFORE: usize = 40;

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
    let message = cut(&safe(&finding.message), 0);
    let mut text = format!("{}: {message}\n", painted(&head, colour));
    let line = finding
        .mark
        .and_then(|mark| manifest.text.lines().nth(mark.line.saturating_sub(1)));
    if let (Some(mark), Some(line)) = (finding.mark, line) {
        let number = mark.line.to_string();
        let margin = " ".repeat(number.len());
        let column = mark.column.saturating_sub(1);
        // Of a long line, the part around the mark.
        let first = if line.chars().count() > LINE_MAX {
            column.saturating_sub(BEFORE)
        } else {
            0
        };
        let excerpt = cut(&safe(line), first);
        // What is longer than its line (a block) is marked up to the end of the line.
        let room = excerpt.chars().count().saturating_sub(column - first);
        let carets = "^".repeat(mark.width.clamp(1, room.max(1)));
        let indent: String = excerpt
            .chars()
            .take(column - first)
            .map(|char| if char == '\t' { '\t' } else { ' ' })
            .collect();
        text += &format!(
            "{margin} {} {}:{}:{}\n",
            painted("-->", BOLD),
            manifest.name,
            mark.line,
            mark.column
        );
        text += &format!("{number} | {excerpt}\n");
        let label = cut(&safe(&finding.label), 0);
        let note = painted(&format!("{carets} {label}"), colour);
        text += format!("{margin} | {indent}{note}").trim_end();
        text.push('\n');
    }
    if !finding.advice.is_empty() {
        text += &format!("  do: {}\n", cut(&safe(&finding.advice), 0));
    }
    text.push('\n');
    text
}

/// A piece of one line from somebody's file, without what a terminal obeys.
fn safe(text: &str) -> String {
    let obeyed = |char: char| char.is_control() && char != '\t';
    let shown = |char| if obeyed(char) { '\u{fffd}' } else { char };
    text.chars().map(shown).collect()
}

/// The part of a text from one character on that is worth showing.
fn cut(text: &str, first: usize) -> String {
    let mut rest = text.chars().skip(first);
    let mut part: String = rest.by_ref().take(LINE_MAX).collect();
    if rest.next().is_some() {
        part.push('…');
    }
    part
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
