//! How long a file may be, and that it says what it is for. A cap and not an average: what makes
//! a codebase hard to read is its longest files.

use super::Violation;
use super::tree::{File, Tree};

const CODE_LINES_MAX: usize = 500;
const LINES_MAX: usize = 800;
const CODE: [&str; 5] = ["rs", "go", "sh", "c", "py"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let code = tree
        .files
        .iter()
        .filter(|file| CODE.contains(&file.extension()));
    let undocumented = tree
        .with_extension("rs")
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| {
            let advice = "begin the file with `//!`: what it decides, what it must not know";
            Violation::new(&file.path, 1, advice)
        });
    code.filter_map(too_long).chain(undocumented).collect()
}

fn too_long(file: &File) -> Option<Violation> {
    let all = file.text.lines().count();
    let code = all - file.test_lines().len();
    let advice = if code > CODE_LINES_MAX {
        format!("{code} lines of code, {CODE_LINES_MAX} are allowed: split by what is decided")
    } else if all > LINES_MAX {
        format!(
            "{all} lines with tests, {LINES_MAX} are allowed: move tests to a file of their own"
        )
    } else {
        return None;
    };
    Some(Violation::new(&file.path, all, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(code: usize, tests: usize) -> String {
        let mut text = String::from("//! A file.\n");
        text += &"fn a() {}\n".repeat(code - 1);
        if tests > 0 {
            text += "#[cfg(test)]\nmod tests {\n";
            text += &"    fn t() {}\n".repeat(tests - 3);
            text += "}\n";
        }
        text
    }

    fn violations(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_file_may_have_500_lines_of_code_and_not_one_more() {
        assert!(violations("a.rs", &file(500, 0)).is_empty());
        let found = violations("a.rs", &file(501, 0));
        assert!(
            found[0].starts_with("a.rs:501: 501 lines of code"),
            "{found:?}"
        );
        assert!(!violations("main.go", &"x\n".repeat(501)).is_empty());
        assert!(violations("list.txt", &"x\n".repeat(5000)).is_empty());
    }

    #[test]
    fn with_its_tests_a_file_may_have_800_lines() {
        assert!(violations("a.rs", &file(500, 300)).is_empty());
        assert!(violations("a.rs", &file(500, 301))[0].contains("801 lines with tests"));
        assert!(violations("crates/a/tests/b.rs", &file(800, 0)).is_empty());
        assert!(violations("crates/a/tests/b.rs", &file(801, 0))[0].contains("801 lines"));
    }

    #[test]
    fn a_rust_file_without_a_module_doc_is_found() {
        assert_eq!(
            violations("a.rs", "fn main() {}\n"),
            ["a.rs:1: begin the file with `//!`: what it decides, what it must not know"]
        );
    }
}
