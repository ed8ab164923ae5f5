//! Links between our own files lead somewhere, and one leads to each page. Decides what counts as a link: Markdown
//! links to a path, and documents named by path in a comment. Addresses on the web are not looked at.

use super::Violation;
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in &tree.files {
        let targets = match file.extension() {
            "md" => markdown_targets(&file.text),
            "rs" | "go" => comment_targets(file, "//"),
            "sh" | "toml" | "yaml" => comment_targets(file, "#"),
            _ => continue,
        };
        for (line, target) in targets {
            if !leads_somewhere(tree, &file.path, &target) {
                let advice = format!("`{target}` does not exist: correct the link");
                found.push(Violation::new(&file.path, line, advice));
            }
        }
    }
    found
}

/// The list of all pages, and the folder that it lists by itself.
const INDEX: &str = "docs/README.md";
const DECISIONS: &str = "docs/decisions/";

/// Pages of `docs/` that their list does not have: nobody finds them.
pub(super) fn check_index(tree: &Tree) -> Vec<Violation> {
    let Some(index) = tree.files.iter().find(|file| file.path == INDEX) else {
        return Vec::new();
    };
    let targets = markdown_targets(&index.text).into_iter();
    let listed: Vec<_> = targets
        .filter_map(|(_, target)| normal(&format!("docs/{target}")))
        .collect();
    let is_page = |file: &&File| {
        file.path.starts_with("docs/")
            && file.extension() == "md"
            && file.path != INDEX
            && !file.path.starts_with(DECISIONS)
    };
    let missing = tree.files.iter().filter(is_page);
    missing
        .filter(|page| !listed.contains(&page.path))
        .map(|page| {
            Violation::new(
                &page.path,
                1,
                format!("no line of {INDEX} leads here: add one"),
            )
        })
        .collect()
}

/// Link targets of a document, without those inside code.
fn markdown_targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            // Every second piece between backticks is code.
            let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            found.extend(
                link_targets(&prose)
                    .into_iter()
                    .map(|target| (index + 1, target)),
            );
        }
    }
    found
}

/// Link targets and documents named in the comments of a file.
fn comment_targets(file: &File, comment: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        let Some(text) = line.trim_start().strip_prefix(comment) else {
            continue;
        };
        let links = link_targets(text)
            .into_iter()
            .filter(|target| is_path(target));
        let documents = text
            .split(|char: char| !char.is_ascii_alphanumeric() && !"_./-".contains(char))
            .map(|word| word.trim_end_matches('.'))
            .filter(|word| word.ends_with(".md") && *word != ".md" && !word.starts_with("//"))
            .map(str::to_owned);
        let mut targets: Vec<_> = links
            .chain(documents)
            .map(|target| (number, target))
            .collect();
        targets.dedup();
        found.append(&mut targets);
    }
    found
}

/// In rustdoc, a target may also be an item: `crate::plan`, `Plan`.
fn is_path(target: &str) -> bool {
    !target.contains("::") && (target.contains('/') || target.ends_with(".md"))
}

/// What stands in `[text](target)` and in `[name]: target`, unless it is on the web or in the
/// same document.
fn link_targets(line: &str) -> Vec<String> {
    let inline = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line
        .starts_with('[')
        .then(|| line.split_once("]: "))
        .flatten();
    inline
        .chain(definition.map(|(_, target)| target.trim()))
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .map(|target| target.split('#').next().unwrap_or_default().to_owned())
        .filter(|target| !target.is_empty())
        .collect()
}

/// Relative to the file, as Markdown reads it, or to the root, as comments write it.
fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = normal(&format!("{folder}/{target}"));
    let from_root = if from.ends_with(".md") {
        None
    } else {
        normal(target)
    };
    [beside, from_root]
        .into_iter()
        .flatten()
        .any(|path| path.is_empty() || tree.paths.contains(&path))
}

/// The path without `.` and `..`; none when it leaves the repository.
fn normal(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let files = [
            (path, text),
            ("ARCHITECTURE.md", ""),
            ("docs/decisions/0001-pure.md", ""),
        ];
        check(&Tree::of(&files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_dead_link_in_a_document_is_found() {
        let found = violations("docs/a.md", "# A\n\n[b](decisions/0002-b.md)\n");
        assert_eq!(
            found,
            ["docs/a.md:3: `decisions/0002-b.md` does not exist: correct the link"]
        );
        assert_eq!(violations("docs/a.md", "[up](../../README.md)").len(), 1);
        assert_eq!(violations("docs/a.md", "[b]: missing.md\n").len(), 1);
    }

    #[test]
    fn a_link_that_leads_somewhere_is_not_found() {
        let live = "[a](../ARCHITECTURE.md#invariants) [b](decisions/0001-pure.md) [c](decisions/)";
        assert!(violations("docs/a.md", live).is_empty());
    }

    #[test]
    fn a_page_that_no_line_leads_to_is_found() {
        let files = [
            (
                "docs/README.md",
                "- [a](how-to/a.md) and [up](../README.md)\n",
            ),
            ("docs/how-to/a.md", "[b](b.md)\n"),
            ("docs/how-to/b.md", ""),
            ("docs/decisions/0001-pure.md", ""),
            ("examples/README.md", ""),
        ];
        let found: Vec<_> = check_index(&Tree::of(&files))
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = "docs/how-to/b.md:1: no line of docs/README.md leads here: add one";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn the_web_anchors_and_code_are_not_links() {
        let text =
            "[a](https://kubernetes.io/x) [b](#here) `[c](gone.md)`\n```\n[d](gone.md)\n```\n";
        assert!(violations("docs/a.md", text).is_empty());
    }

    #[test]
    fn a_dead_document_named_in_a_comment_is_found() {
        let dead = "//! Why: `docs/decisions/0009-gone.md`.\n";
        let found = violations("crates/a/src/lib.rs", dead);
        assert!(
            found[0].starts_with("crates/a/src/lib.rs:1: `docs/decisions/0009"),
            "{found:?}"
        );
        assert!(!violations("crates/a/src/lib.rs", "//! See [x](../gone/y.rs).\n").is_empty());
        assert!(violations("a.rs", "//! Why: docs/decisions/0001-pure.md.\n").is_empty());
        assert!(violations("a.rs", "//! See [`Plan`](crate::plan::Plan), [x](Plan).\n").is_empty());
        assert!(violations("a.rs", "//! See https://github.com/a/b/README.md\n").is_empty());
    }
}
