//! Counts tests by reading what libtest prints. Knows its closing line and nothing else.

use std::iter::Sum;
use std::ops::AddAssign;

/// Tests by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u32,
    pub(super) failed: u32,
    pub(super) ignored: u32,
}

impl Tally {
    /// What one line of output adds: something for the closing line of a test program, else
    /// nothing.
    pub(super) fn of_line(line: &str) -> Self {
        let mut tally = Self::default();
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return tally;
        };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((number, "passed")) => tally.passed = number.parse().unwrap_or(0),
                Some((number, "failed")) => tally.failed = number.parse().unwrap_or(0),
                Some((number, "ignored")) => tally.ignored = number.parse().unwrap_or(0),
                _ => {}
            }
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
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

    #[test]
    fn the_closing_line_of_a_test_program_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; \
                    7 filtered out; finished in 0.01s";
        let expected = Tally {
            passed: 12,
            failed: 3,
            ignored: 1,
        };
        assert_eq!(Tally::of_line(line), expected);
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "",
            "test a_fact ... ok",
            "12 passed; 3 failed",
            "running 3 tests",
        ] {
            assert_eq!(Tally::of_line(line), Tally::default(), "{line}");
        }
    }
}
