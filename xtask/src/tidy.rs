//! The style rules that no compiler checks, as code. Decides which rules there are and how their
//! findings are shown: all of them at once, each with file, line and what to do. The rules live in
//! the files below this one and see only texts, so that their tests need no disk.

mod dependencies;
mod links;
mod names;
mod size;
mod tree;
mod words;

use std::fmt;

use anyhow::{Result, bail};

use crate::{codegen, root};
use tree::Tree;

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<()> {
    let tree = Tree::read(root())?;
    let metadata = dependencies::Metadata::read(root())?;
    let mut violations = [
        size::check(&tree),
        names::check(&tree),
        words::check(&tree),
        links::check(&tree),
        dependencies::check(&tree, &metadata),
    ]
    .concat();
    let generated = codegen::run(codegen::Args { check: true });
    violations.extend(stale_generated_files(generated));
    violations.sort();

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
