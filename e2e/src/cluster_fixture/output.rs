//! What `pi` of `e2e/images` prints, read back: how many ranks there were, where they ran, and what
//! they found. Must not know how it was started.

use std::collections::BTreeSet;
use std::f64::consts::PI;

use anyhow::{Result, ensure};

/// A launcher's log.
#[derive(Debug)]
pub struct Output {
    /// As it was read.
    pub text: String,
    /// How many ranks the last run had.
    pub ranks: Option<u32>,
    /// The hosts of the last run.
    pub hosts: BTreeSet<String>,
    /// The result of the last run.
    pub result: Option<f64>,
}

impl Output {
    /// Reads a log; of several runs the last one counts.
    pub fn of(text: &str) -> Self {
        let mut output = Self {
            text: text.to_owned(),
            ranks: None,
            hosts: BTreeSet::new(),
            result: None,
        };
        for line in text.lines() {
            if let Some(ranks) = line.strip_prefix("Workers: ") {
                output.ranks = ranks.parse().ok();
                output.hosts.clear();
                output.result = None;
            } else if let Some(result) = line.strip_prefix("pi is approximately ") {
                output.result = result.parse().ok();
            } else if line.starts_with("rank ") {
                let host = line.split_once(" on ").map(|(_, host)| host.to_owned());
                output.hosts.extend(host);
            }
        }
        output
    }

    /// Fails unless so many ranks ran on exactly these hosts and found pi.
    pub fn expect(&self, ranks: u32, hosts: &[&str]) -> Result<()> {
        let text = &self.text;
        ensure!(
            self.ranks == Some(ranks),
            "{:?} ranks, not {ranks}:\n{text}",
            self.ranks
        );
        let expected: BTreeSet<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        ensure!(
            self.hosts == expected,
            "ranks on {:?}, not {hosts:?}:\n{text}",
            self.hosts
        );
        // Few points make a rough estimate.
        let found = self
            .result
            .is_some_and(|result| (result - PI).abs() < 0.005);
        ensure!(found, "pi was not found:\n{text}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "Workers: 3\nrank 0 of 3 on a\nWorkers: 2\nrank 0 of 2 on a\n\
                       rank 1 of 2 on b\npi is approximately 3.141000\n";

    #[test]
    fn the_last_run_counts() {
        Output::of(LOG)
            .expect(2, &["b", "a"])
            .expect("it ran on both");
    }

    #[test]
    fn ranks_that_shared_a_host_are_noticed() {
        let log = LOG.replace("rank 1 of 2 on b\n", "");
        Output::of(&log)
            .expect(2, &["a", "b"])
            .expect_err("b did not run");
        Output::of(&LOG.replace("3.14", "2.71"))
            .expect(2, &["a", "b"])
            .expect_err("not pi");
    }
}
