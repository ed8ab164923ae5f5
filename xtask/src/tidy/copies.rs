//! The same logic is written once. Decides what counts as the same: a run of lines whose code is
//! equal, whatever the comments and imports between them.

use std::collections::HashMap;

use super::Violation;
use super::rust::{Source, Token};

/// How many lines of code two places may share.
const SHARED_MAX: usize = 20;

/// A line of code without what does not matter.
struct Line {
    number: usize,
    code: String,
}

pub(super) fn check(sources: &[Source<'_>]) -> Vec<Violation> {
    let files: Vec<_> = sources.iter().map(|source| lines(&source.tokens)).collect();
    let mut first_seen: HashMap<Vec<&str>, (usize, usize)> = HashMap::new();
    let mut found: Vec<Violation> = Vec::new();
    for (index, file) in files.iter().enumerate() {
        // A longer run is a series of windows, each one line further; one violation tells of it.
        let mut last = None;
        for (start, window) in file.windows(SHARED_MAX + 1).enumerate() {
            let code: Vec<_> = window.iter().map(|line| line.code.as_str()).collect();
            let (other, place) = *first_seen.entry(code).or_insert((index, start));
            if (other, place) == (index, start) || (other == index && start - place <= SHARED_MAX) {
                last = None;
                continue;
            }
            if last != Some((other, place)) {
                let advice = format!(
                    "more than {SHARED_MAX} lines as at {}:{}: write them once",
                    sources[other].file.path, files[other][place].number
                );
                let line = window[0].number;
                found.push(Violation::new(&sources[index].file.path, line, advice));
            }
            last = Some((other, place + 1));
        }
    }
    found
}

/// The lines of code of a file, without imports.
fn lines(tokens: &[Token]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut importing = false;
    for token in tokens {
        importing |= token.text == "use";
        if importing {
            importing = token.text != ";";
            continue;
        }
        match lines.last_mut().filter(|last| last.number == token.line) {
            Some(last) => {
                last.code.push(' ');
                last.code += &token.text;
            }
            None => lines.push(Line {
                number: token.line,
                code: token.text.clone(),
            }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::rust;
    use super::super::tree::Tree;
    use super::*;

    fn violations(shared: usize) -> Vec<String> {
        let body: String = (0..shared)
            .map(|line| format!("    step({line});\n"))
            .collect();
        let one = format!("//! A.\nuse crate::b;\n\nfn one() {{\n{body}}}\n");
        // A comment and other indentation change nothing.
        let other = format!("//! B.\nfn other() {{\n    // Why.\n{body}}}\n");
        let files = [
            ("crates/agent/src/a.rs", one.as_str()),
            ("crates/planner/src/b.rs", other.as_str()),
        ];
        let tree = Tree::of(&files);
        check(&rust::sources(&tree))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn more_than_20_equal_lines_are_found_once() {
        // The closing brace is the same too.
        assert_eq!(
            violations(30),
            [
                "crates/planner/src/b.rs:4: more than 20 lines as at crates/agent/src/a.rs:5: write \
              them once"
            ]
        );
        assert_eq!(violations(20).len(), 1);
        assert!(violations(19).is_empty());
    }
}
