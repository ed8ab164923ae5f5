//! Figures that a run found, for those who read its log: the test harness keeps what `print!` writes
//! to itself when a test passes, so they go around it.

use std::io::Write;

/// Says a figure, or a table of them, at once and in one piece.
pub fn say(text: &str) {
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| format!("  | {line}\n"))
        .collect();
    // A log that nobody reads any more is no reason to fail.
    drop(
        std::io::stdout()
            .lock()
            .write_all(lines.concat().as_bytes()),
    );
}
