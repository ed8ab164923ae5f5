//! The style rules that no compiler checks, as code. Decides which rules there are and how their
//! findings are shown: all of them at once, each with file, line and what to do. The rules live in
//! the files below this one and see only texts, so that their tests need no disk.

mod contract;
mod copies;
mod cycles;
mod dependencies;
mod dialect_words;
mod links;
mod names;
mod rust;
mod size;
mod supply;
mod tree;
mod types;
mod weight;
mod words;

use std::fmt;

use anyhow::{Result, bail};

use crate::{codegen, root};
use tree::Tree;

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print how much code there is instead, for each crate
    #[arg(long)]
    weight: bool,
    /// List what rules find that are pending
    #[arg(long)]
    pending: bool,
}

/// Rules that the tree does not obey yet, by rule and crate: what they find there is counted and does
/// not fail. A rule leaves this list for good when its last finding is gone.
const PENDING: &[(&str, &str)] = &[("cycles", "crates/cli/"), ("cycles", "crates/minicluster/")];

pub(crate) fn run(args: &Args) -> Result<()> {
    let tree = Tree::read(root())?;
    if args.weight {
        print!("{}", weight::table(&tree));
        return Ok(());
    }
    check(&tree, args.pending)
}

/// Every rule, over all of the repository.
pub(crate) fn check_all() -> Result<()> {
    check(&Tree::read(root())?, false)
}

fn check(tree: &Tree, lists_pending: bool) -> Result<()> {
    let sources = rust::sources(tree);
    let closures = dependencies::closures()?;
    let packages = supply::packages()?;
    let generated = codegen::run(codegen::Args { check: true });
    let rules = [
        ("size", size::check(tree)),
        ("names", names::check(tree)),
        ("words", words::check(tree)),
        ("phrases", words::check_phrases(tree)),
        ("links", links::check(tree)),
        ("dependencies", dependencies::check(tree, &closures)),
        ("supply", supply::check(tree, &packages)),
        ("cycles", cycles::check(&sources)),
        ("types", types::check(&sources)),
        ("contract", contract::check(&sources)),
        ("dialect words", dialect_words::check(&sources)),
        ("copies", copies::check(&sources)),
        (
            "generated",
            Vec::from_iter(stale_generated_files(generated)),
        ),
    ];
    let (mut violations, mut pending) = (Vec::new(), Vec::new());
    for (rule, found) in rules {
        for violation in found {
            let is_pending =
                |(one, below): &&(&str, &str)| *one == rule && violation.file.starts_with(below);
            match PENDING.iter().find(is_pending) {
                Some(_) => pending.push(violation),
                None => violations.push(violation),
            }
        }
    }
    if lists_pending {
        show(&mut pending);
    }
    if !pending.is_empty() {
        let count = pending.len();
        println!("tidy: {count} findings of rules that are pending; `--pending` lists them");
    }
    show(&mut violations);
    match violations.len() {
        0 => Ok(()),
        1 => bail!("tidy: 1 violation, listed above"),
        count => bail!("tidy: {count} violations, listed above"),
    }
}

fn show(violations: &mut Vec<Violation>) {
    violations.sort();
    violations.dedup();
    for violation in violations {
        println!("{violation}");
    }
}

/// Generated files are committed, so that nobody needs to generate them; so they must be up to date.
fn stale_generated_files(check: Result<()>) -> Option<Violation> {
    let error = check.err()?;
    Some(Violation::new("deploy", 1, format!("{error:#}")))
}

/// A place where a rule is broken, and what to do there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    file: String,
    line: usize,
    advice: String,
}

impl Violation {
    fn new(file: &str, line: usize, advice: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_file_that_is_out_of_date_is_found() {
        assert_eq!(stale_generated_files(Ok(())), None);
        let found = stale_generated_files(Err(anyhow::anyhow!("out of date: muster.yaml")));
        let text = found.map(|violation| violation.to_string());
        assert_eq!(text.as_deref(), Some("deploy:1: out of date: muster.yaml"));
    }
}
