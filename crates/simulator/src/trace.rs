//! What happened, one line each, in fixed columns: time, who, what, what came of it. Its hash tells
//! whether two runs were the same.

use std::fmt::Write as _;

use crate::clock;

/// A list of events.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    hash: u64,
    /// Kept only if somebody wants to read them.
    lines: Option<String>,
}

impl Trace {
    pub(crate) fn new(keep: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: keep.then(String::new),
        }
    }

    /// Something happened.
    pub(crate) fn say(&mut self, who: &str, what: &str, came: &str) {
        let at = clock::millis();
        for text in [&at.to_string(), who, what, came] {
            for byte in text.bytes().chain([b'\n']) {
                self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        if let Some(lines) = &mut self.lines {
            let secs = format!("{}.{:03}", at / 1000, at % 1000);
            let line = format!("{secs:>9}  {who:<8}  {what:<58}  {came}");
            writeln!(lines, "{}", line.trim_end()).expect("a String takes all text");
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_lines(self) -> String {
        self.lines.unwrap_or_default()
    }
}
