//! What the person sees: a heading and a time for each stage, and one line at the end that says how
//! it went. Decides how failures are counted; must not know what the stages do.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::tally::Tally;
use crate::interrupts::Interrupts;

/// The stages so far.
pub(super) struct Report {
    interrupts: Interrupts,
    started: Instant,
    tally: Tally,
    failed_stages: Vec<String>,
}

impl Report {
    pub(super) fn new(interrupts: Interrupts) -> Self {
        Self {
            interrupts,
            started: Instant::now(),
            tally: Tally::default(),
            failed_stages: Vec::new(),
        }
    }

    /// Runs a stage, unless a signal came before.
    pub(super) fn stage(&mut self, name: &str, work: impl FnOnce() -> Result<Tally>) {
        if self.interrupts.exit_code().is_some() {
            return;
        }
        println!("\n== {name}");
        let started = Instant::now();
        let result = work();
        let elapsed = seconds(started.elapsed());
        if let Err(error) = &result {
            println!("{error:#}");
        }
        let word = if self.count(name, &result) {
            "ok"
        } else {
            "FAILED"
        };
        println!("== {name}: {word} in {elapsed}");
    }

    /// Whether the stage passed. One that failed without a failed test, such as one that did not
    /// compile, counts as one failure: the closing line must never look better than the run was.
    fn count(&mut self, name: &str, result: &Result<Tally>) -> bool {
        let failure = Tally {
            failed: 1,
            ..Tally::default()
        };
        let tally = result.as_ref().map_or(failure, |tally| *tally);
        self.tally += tally;
        if tally.failed > 0 {
            self.failed_stages.push(name.to_owned());
        }
        tally.failed == 0
    }

    pub(super) fn all_passed(&self) -> bool {
        self.tally.failed == 0
    }

    /// Prints how it went; the exit code says the same.
    pub(super) fn close(self) -> i32 {
        println!("\n{}", self.closing(self.started.elapsed()));
        match self.interrupts.exit_code() {
            Some(code) => code,
            None => i32::from(!self.all_passed()),
        }
    }

    fn closing(&self, elapsed: Duration) -> String {
        let mut text = format!("stages took {}", seconds(elapsed));
        if !self.failed_stages.is_empty() {
            let _ = write!(text, "; failed: {}", self.failed_stages.join(", "));
        }
        if self.interrupts.exit_code().is_some() {
            text += "; stopped by a signal before the end";
        }
        let Tally {
            passed,
            failed,
            ignored,
        } = self.tally;
        let _ = write!(text, "\n{passed} passed, {failed} failed");
        if ignored > 0 {
            let _ = write!(text, ", {ignored} ignored");
        }
        text
    }
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(passed: u32, failed: u32) -> Result<Tally> {
        Ok(Tally {
            passed,
            failed,
            ignored: 0,
        })
    }

    fn closing(stages: &[(&str, Result<Tally>)]) -> String {
        let mut report = Report::new(Interrupts::default());
        for (name, result) in stages {
            report.count(name, result);
        }
        report.closing(Duration::from_millis(1500))
    }

    #[test]
    fn the_last_line_sums_all_stages() {
        let text = closing(&[("unit tests", tests(40, 0)), ("cluster", tests(2, 0))]);
        assert_eq!(text, "stages took 1.5 s\n42 passed, 0 failed");
    }

    #[test]
    fn a_stage_that_fails_without_a_failed_test_counts_as_one() {
        let broken = Err(anyhow::anyhow!("does not compile"));
        let text = closing(&[("clippy", broken), ("unit tests", tests(7, 2))]);
        assert_eq!(
            text,
            "stages took 1.5 s; failed: clippy, unit tests\n7 passed, 3 failed"
        );
    }
}
