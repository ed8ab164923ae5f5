//! What the person sees: a heading and a time for each stage, and at the end a table of where the time
//! went and one line that says how it went. Decides how failures are counted; must not know what the
//! stages do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::builds::Build;
use super::tally::{Failure, Tally};
use crate::artifacts::Artifact;
use crate::interrupts::Interrupts;

/// The stages so far, which may run side by side.
pub(super) struct Report {
    interrupts: Interrupts,
    started: Instant,
    stages: Mutex<Vec<Stage>>,
    /// What this machine cannot run, and why.
    left_out: Vec<String>,
}

/// How one stage went.
struct Stage {
    name: &'static str,
    took: Duration,
    tally: Tally,
}

impl Report {
    pub(super) fn new(interrupts: Interrupts) -> Self {
        Self {
            interrupts,
            started: Instant::now(),
            stages: Mutex::default(),
            left_out: Vec::new(),
        }
    }

    /// The closing says this once more.
    pub(super) fn leave_out(&mut self, why: String) {
        self.left_out.push(why);
    }

    /// Runs a stage, unless a signal came before.
    pub(super) fn stage(&self, name: &'static str, work: impl FnOnce() -> Result<Tally>) {
        if self.interrupts.exit_code().is_some() {
            return;
        }
        println!("\n== {name}");
        let started = Instant::now();
        let result = work();
        let took = started.elapsed();
        if let Err(error) = &result {
            println!("{error:#}");
        }
        let word = if self.add(name, took, result) {
            "ok"
        } else {
            "FAILED"
        };
        println!("== {name}: {word} in {:.1} s", took.as_secs_f64());
    }

    /// Whether the stage passed. One that failed without a failed test, such as one that did not
    /// compile, counts as one failure: the closing line must never look better than the run was.
    fn add(&self, name: &'static str, took: Duration, result: Result<Tally>) -> bool {
        let tally = result.unwrap_or(Tally {
            failed: 1,
            ..Tally::default()
        });
        let passed = tally.failed == 0;
        self.stages().push(Stage { name, took, tally });
        passed
    }

    pub(super) fn all_passed(&self) -> bool {
        self.sum().failed == 0
    }

    /// Prints how it went; the exit code says the same.
    pub(super) fn close(self, builds: &BTreeMap<Artifact, Build>) -> i32 {
        println!("\n{}", self.closing(self.started.elapsed(), builds));
        match self.interrupts.exit_code() {
            Some(code) => code,
            None => i32::from(!self.all_passed()),
        }
    }

    fn closing(&self, elapsed: Duration, builds: &BTreeMap<Artifact, Build>) -> String {
        let mut text = "stage             seconds   tests\n".to_owned();
        for Stage { name, took, tally } in &*self.stages() {
            let seconds = took.as_secs_f64();
            let _ = write!(text, "{name:<16}{seconds:>9.1}");
            let _ = match (tally.passed, tally.failed) {
                (0, 0) => writeln!(text),
                (passed, 0) => writeln!(text, "{passed:>8}"),
                (passed, failed) => writeln!(text, "{passed:>8}, {failed} FAILED"),
            };
        }
        let _ = writeln!(text, "all             {:>9.1}", elapsed.as_secs_f64());
        if !builds.is_empty() {
            text += "\nbuilt beside the stages\n";
        }
        for (artifact, build) in builds {
            let _ = writeln!(text, "{:<16}{build}", artifact.name());
        }
        if self.interrupts.exit_code().is_some() {
            text += "\nstopped by a signal before the end";
        }
        let sum = self.sum();
        let lists = [
            ("failed", &sum.failures),
            ("passed only when they ran once more", &sum.unsteady),
        ];
        for (heading, list) in lists {
            if !list.is_empty() {
                let _ = writeln!(text, "\n{heading}");
            }
            for Failure { test, said } in list {
                let _ = writeln!(text, "{test}: {said}");
            }
        }
        if !self.left_out.is_empty() {
            let _ = writeln!(text, "\n{}", self.left_out.join("\n"));
        }
        let _ = write!(text, "\n{} passed, {} failed", sum.passed, sum.failed);
        if sum.ignored > 0 {
            let _ = write!(text, ", {} ignored", sum.ignored);
        }
        text
    }

    fn sum(&self) -> Tally {
        let stages = self.stages();
        stages.iter().map(|stage| stage.tally.clone()).sum()
    }

    fn stages(&self) -> MutexGuard<'_, Vec<Stage>> {
        // A stage is added in one step, so a panic elsewhere cannot have left it halfway.
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(passed: u32, failed: u32) -> Result<Tally> {
        Ok(Tally {
            passed,
            failed,
            ..Tally::default()
        })
    }

    fn closing(stages: Vec<(&'static str, Result<Tally>)>) -> String {
        let report = Report::new(Interrupts::default());
        for (name, result) in stages {
            report.add(name, Duration::from_millis(1500), result);
        }
        let build = Build::Done {
            took: Duration::from_secs(90),
            cached: false,
        };
        let builds = BTreeMap::from([(Artifact::Operator, build)]);
        report.closing(Duration::from_millis(4500), &builds)
    }

    #[test]
    fn the_table_says_where_the_time_went_and_the_last_line_sums_all_stages() {
        let text = closing(vec![("unit tests", tests(40, 0)), ("cluster", tests(2, 0))]);
        assert_eq!(
            text,
            "\
stage             seconds   tests
unit tests            1.5      40
cluster               1.5       2
all                   4.5

built beside the stages
operator             90.0

42 passed, 0 failed"
        );
    }

    #[test]
    fn what_could_not_run_is_named_before_the_last_line() {
        let mut report = Report::new(Interrupts::default());
        report.leave_out("api tests cannot run here".to_owned());
        let text = report.closing(Duration::ZERO, &BTreeMap::new());
        let end = "\n\napi tests cannot run here\n\n0 passed, 0 failed";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_stage_that_fails_without_a_failed_test_counts_as_one() {
        let broken = Err(anyhow::anyhow!("does not compile"));
        let text = closing(vec![("clippy", broken), ("unit tests", tests(7, 2))]);
        assert!(
            text.contains("\nclippy                1.5       0, 1 FAILED\n"),
            "{text}"
        );
        assert!(text.ends_with("\n7 passed, 3 failed"), "{text}");
    }

    #[test]
    fn what_failed_is_named_just_before_the_last_line() {
        let failure = Failure {
            test: "cost::writes".to_owned(),
            said: "17 writes".to_owned(),
        };
        let unsteady = Failure {
            test: "idle::lists".to_owned(),
            said: "2 lists".to_owned(),
        };
        let tally = Tally {
            passed: 1,
            failed: 1,
            failures: vec![failure],
            unsteady: vec![unsteady],
            ..Tally::default()
        };
        let text = closing(vec![("api", Ok(tally))]);
        let end = "\nfailed\ncost::writes: 17 writes\n
passed only when they ran once more\nidle::lists: 2 lists\n
1 passed, 1 failed";
        assert!(text.ends_with(end), "{text}");
    }
}
