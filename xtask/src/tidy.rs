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
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tree = Tree::read(root())?;
    if args.weight {
        print!("{}", weight::table(&tree));
        return Ok(());
    }
    check(&tree)
}

/// Every rule, over all of the repository.
pub(crate) fn check_all() -> Result<()> {
    check(&Tree::read(root())?)
}

fn check(tree: &Tree) -> Result<()> {
    let sources = rust::sources(tree);
    let closures = dependencies::closures()?;
    let packages = supply::packages()?;
    let generated = codegen::run(codegen::Args { check: true });
    let mut violations = [
        size::check(tree),
        names::check(tree),
        words::check(tree),
        words::check_phrases(tree),
        links::check(tree),
        links::check_index(tree),
        dependencies::check(tree, &closures),
        supply::check(tree, &packages),
        cycles::check(&sources),
        types::check(&sources),
        contract::check(&sources),
        dialect_words::check(&sources),
        copies::check(&sources),
        Vec::from_iter(stale_generated_files(generated)),
    ]
    .concat();
    violations.sort();
    violations.dedup();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        1 => bail!("tidy: 1 violation, listed above"),
        count => bail!("tidy: {count} violations, listed above"),
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
