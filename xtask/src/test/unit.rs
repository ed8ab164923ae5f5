//! The stage that needs nothing but cargo. Decides what is checked before any test runs, and which tests these are; must
//! not know of clusters.

use anyhow::{Context, Result, bail};

use super::Stages;
use super::report::Report;
use super::tally::Tally;
use crate::command::{self, cargo};
use crate::tidy;

/// Tests that need nothing but cargo.
const WITHOUT_CLUSTER: [&str; 7] = [
    "--workspace",
    "--exclude",
    "e2e",
    "--exclude",
    "cli",
    "--exclude",
    "minicluster",
];
/// Those of the model, without what compares it with the real one.
const MODEL_ALONE: [&str; 9] = [
    "--package",
    "minicluster",
    "--lib",
    "--test",
    "client",
    "--test",
    "admission",
    "--test",
    "controllers",
];

impl Stages {
    pub(super) fn unit(&self, report: &Report) {
        report.stage("rustfmt", || {
            let result = self.check("fmt", &["--all", "--", "--check", "-l"]);
            result.context("not formatted: run `cargo fmt --all`")
        });
        report.stage("tidy", || tidy::check_all().map(|()| Tally::default()));
        report.stage("clippy", || {
            let words = ["--workspace", "--all-targets", "--", "-D", "warnings"];
            self.check("clippy", &words)
        });
        report.stage("unit tests", || {
            let mut tally = self.tests("", cargo("test").args(WITHOUT_CLUSTER))?;
            tally += self.tests("", cargo("test").args(MODEL_ALONE))?;
            // What judges the clusters is judged first.
            tally += self.tests("", cargo("test").args(["--package", "e2e", "--lib"]))?;
            Ok(tally)
        });
    }

    /// A component of the toolchain that finds fault or does not.
    fn check(&self, subcommand: &str, words: &[&str]) -> Result<Tally> {
        if !command::succeeds(cargo(subcommand).arg("--version")) {
            let component = if subcommand == "fmt" {
                "rustfmt"
            } else {
                subcommand
            };
            bail!("{component} is missing: `rustup component add {component}` installs it");
        }
        self.program("", cargo(subcommand).args(words), |_| {})?;
        Ok(Tally::default())
    }
}
