//! Counts tests by reading what libtest prints, and remembers what failed. Knows its lines and nothing
//! else.

use std::iter::Sum;
use std::ops::AddAssign;

/// With more failed tests than this, something is broken that another run would only hide.
const RUN_AGAIN_MAX: usize = 2;

/// Tests by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u32,
    pub(super) failed: u32,
    pub(super) ignored: u32,
    pub(super) failures: Vec<Failure>,
    /// What the tests said at first that passed only when they ran once more.
    pub(super) unsteady: Vec<Failure>,
}

/// One failed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) test: String,
    /// The first line of its panic message or error.
    pub(super) said: String,
}

/// Reads the output of test programs, line by line.
#[derive(Default)]
pub(super) struct Reader {
    tally: Tally,
    /// The failed test whose output is being repeated.
    shown: Option<String>,
    /// Whether the next line is a panic message.
    panicked: bool,
    /// A test program has begun, and has not said how it went.
    running: bool,
}

impl Reader {
    pub(super) fn line(&mut self, line: &str) {
        if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
            self.end_program();
            self.running = true;
        } else if line.starts_with("test result: ") {
            self.running = false;
        }
        if let Some(rest) = line.strip_prefix("---- ") {
            self.shown = rest.strip_suffix(" stdout ----").map(str::to_owned);
            self.panicked = false;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.shown = None;
        }
        let error = line.strip_prefix("Error: ");
        let said = if self.panicked { Some(line) } else { error };
        if let Some(said) = said
            && let Some(test) = self.shown.take()
        {
            let said = said.trim().to_owned();
            self.tally.failures.push(Failure { test, said });
        }
        self.panicked = line.starts_with("thread '") && line.contains(" panicked at ");
        self.tally.count(line);
    }

    pub(super) fn close(mut self) -> Tally {
        self.end_program();
        self.tally
    }

    /// A program that ended without a word about its tests has failed, without a name.
    fn end_program(&mut self) {
        self.tally.failed += u32::from(self.running);
        self.running = false;
    }
}

impl Tally {
    /// The tests that are worth another run: few, and each known by name.
    pub(super) fn worth_another_run(&self) -> Option<Vec<String>> {
        let few = (1..=RUN_AGAIN_MAX).contains(&self.failures.len());
        let tests = self.failures.iter().map(|failure| failure.test.clone());
        (few && self.names_all_failures()).then(|| tests.collect())
    }

    /// What is true after the failed tests ran `again`. Nothing has changed if some of them did not.
    pub(super) fn after_another_run(mut self, again: Self) -> Self {
        if again.passed + again.failed != self.failed || !again.names_all_failures() {
            return self;
        }
        let failed = |failure: &Failure| again.failures.iter().any(|at| at.test == failure.test);
        let (failures, unsteady) = self.failures.into_iter().partition(failed);
        self.failures = failures;
        self.unsteady.extend::<Vec<_>>(unsteady);
        self.passed += again.passed;
        self.failed = again.failed;
        self
    }

    /// A program that ended early has failed without a name.
    fn names_all_failures(&self) -> bool {
        u32::try_from(self.failures.len()) == Ok(self.failed)
    }

    /// Only the closing line of a test program has counts.
    fn count(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self.unsteady.extend(other.unsteady);
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        let mut sum = Self::default();
        tallies.for_each(|tally| sum += tally);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tally {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.line(line));
        reader.close()
    }

    #[test]
    fn the_closing_lines_of_test_programs_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; \
                    7 filtered out; finished in 0.01s";
        let expected = Tally {
            passed: 24,
            failed: 6,
            ignored: 2,
            ..Tally::default()
        };
        assert_eq!(read(&format!("{line}\n{line}")), expected);
    }

    #[test]
    fn a_program_that_ends_early_is_a_failure_without_a_name() {
        let good = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        for text in [
            format!("running 1 test\nrunning 2 tests\n{good}"),
            format!("running 2 tests\n{good}\nrunning 1 test\ntest a ... "),
        ] {
            let tally = read(&text);
            assert_eq!((tally.passed, tally.failed), (1, 1), "{text}");
            assert_eq!(tally.worth_another_run(), None, "{text}");
        }
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "",
            "test a_fact ... ok",
            "test result: ok",
            "warning: unused variable: `passed`",
            "Error: a program said so",
        ] {
            assert_eq!(read(line), Tally::default(), "{line}");
        }
    }

    fn failed(tests: &[&str]) -> Tally {
        let failure = |test: &&str| Failure {
            test: (*test).to_owned(),
            said: "no".to_owned(),
        };
        Tally {
            failed: u32::try_from(tests.len()).unwrap(),
            failures: tests.iter().map(failure).collect(),
            ..Tally::default()
        }
    }

    #[test]
    fn a_test_that_passes_at_its_second_run_has_passed_and_is_named() {
        let again = Tally {
            passed: 1,
            ..failed(&["b"])
        };
        let expected = Tally {
            passed: 1,
            unsteady: failed(&["a"]).failures,
            ..failed(&["b"])
        };
        assert_eq!(failed(&["a", "b"]).after_another_run(again), expected);
    }

    #[test]
    fn a_second_run_that_left_out_a_test_changes_nothing() {
        let again = Tally {
            passed: 1,
            ..Tally::default()
        };
        assert_eq!(
            failed(&["a", "b"]).after_another_run(again),
            failed(&["a", "b"])
        );
        let nameless = Tally {
            failed: 1,
            ..Tally::default()
        };
        assert_eq!(
            failed(&["a"]).after_another_run(nameless),
            failed(&["a"]),
            "a program that did not even start"
        );
    }

    #[test]
    fn only_a_few_failures_that_are_known_by_name_are_worth_another_run() {
        assert_eq!(failed(&[]).worth_another_run(), None);
        assert_eq!(
            failed(&["a"]).worth_another_run(),
            Some(vec!["a".to_owned()])
        );
        assert_eq!(failed(&["a", "b", "c"]).worth_another_run(), None);
        let nameless = Tally {
            failed: 2,
            ..failed(&["a"])
        };
        assert_eq!(nameless.worth_another_run(), None);
    }

    #[test]
    fn a_failed_test_is_remembered_with_the_first_line_it_said() {
        let text = "\
test leaders::one ... FAILED
test leaders::two ... FAILED

failures:

---- leaders::one stdout ----
a line of its own

thread 'leaders::one' (17) panicked at e2e/tests/api/leaders.rs:12:5:
  pi-ssh was made twice
left: 2
note: run with `RUST_BACKTRACE=1`

---- leaders::two stdout ----
Error: the API server said no

Caused by:
    Error: not this one

failures:
    leaders::one
";
        let failure = |test: &str, said: &str| Failure {
            test: test.to_owned(),
            said: said.to_owned(),
        };
        assert_eq!(
            read(text).failures,
            [
                failure("leaders::one", "pi-ssh was made twice"),
                failure("leaders::two", "the API server said no"),
            ]
        );
    }
}
