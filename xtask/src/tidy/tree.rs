//! The files of the repository, as the rules see them: relative paths and texts. Decides what
//! belongs to the repository and which lines of a file are tests; knows no rule.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};

/// Every file of the repository.
#[derive(Default)]
pub(super) struct Tree {
    /// Those that are text, ordered by path.
    pub(super) files: Vec<File>,
    /// All paths, directories too, relative to the root and with `/` between their parts.
    pub(super) paths: BTreeSet<String>,
}

/// A text file.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    /// Reads everything below `root` except what git and cargo keep there.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_directory(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_directory(&mut self, root: &Path, relative: &str) -> Result<()> {
        let directory = root.join(relative);
        let cannot_read = || format!("cannot read {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(cannot_read)? {
            let entry = entry.with_context(cannot_read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{relative}{name}");
            if matches!(name.as_str(), ".git" | "target") {
                continue;
            }
            self.paths.insert(path.clone());
            if entry.file_type().with_context(cannot_read)?.is_dir() {
                self.read_directory(root, &format!("{path}/"))?;
                continue;
            }
            // A file may go while we look: an editor's scratch file is nobody's violation.
            let Ok(bytes) = fs::read(entry.path()) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }

    /// A made-up repository.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            let parts: Vec<_> = path.split('/').collect();
            tree.paths
                .extend((1..=parts.len()).map(|depth| parts[..depth].join("/")));
            tree.files.push(File {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            });
        }
        tree
    }

    /// Files in a language, by the end of their name.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(move |file| file.extension() == extension)
    }
}

impl File {
    /// What follows the last dot of the name, or nothing.
    pub(super) fn extension(&self) -> &str {
        self.path
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension)
    }

    /// Lines with their numbers, which begin at 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Whether all of it is tests, or what tests are built from.
    pub(super) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let is_folder = |part: &str| matches!(part, "tests" | "fixtures" | "fuzz");
        self.path.starts_with("e2e/src/")
            || self.path.split('/').any(is_folder)
            || matches!(name, "tests.rs" | "fixtures.rs")
            || name.ends_with("_test.go")
    }

    /// Which line numbers are tests: all of a test file, else the body of `#[cfg(test)] mod`.
    pub(super) fn test_lines(&self) -> Range<usize> {
        let end = self.text.lines().count() + 1;
        if self.is_test() {
            return 1..end;
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let opens = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
        let Some(start) = lines.windows(2).position(opens) else {
            return end..end;
        };
        // rustfmt puts the closing brace of a top-level block, and only that, in the first column.
        let close = lines.iter().skip(start).position(|line| *line == "}");
        start + 1..close.map_or(end, |length| start + length + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(path: &str, text: &str) -> Range<usize> {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
        .test_lines()
    }

    #[test]
    fn the_test_module_is_tests_and_what_follows_it_is_code() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\nfn b() {}\n";
        assert_eq!(test_lines("crates/a/src/lib.rs", text), 2..6);
    }

    #[test]
    fn a_single_item_for_tests_does_not_make_the_rest_tests() {
        let text = "#[cfg(test)]\nfn for_tests() {}\nfn product() {}\n";
        assert!(test_lines("crates/a/src/lib.rs", text).is_empty());
    }

    #[test]
    fn files_of_a_tests_folder_are_tests_whole() {
        assert_eq!(
            test_lines("crates/a/tests/b.rs", "//! One.\nfn a() {}\n"),
            1..3
        );
        assert_eq!(
            test_lines("e2e/cluster/kube/main_test.go", "package main\n"),
            1..2
        );
    }
}
