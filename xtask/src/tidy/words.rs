//! Words that may not be written: markers of unfinished work, lints silenced without a reason,
//! sleeping for a guessed time, and names that are true on one machine or network only.
//!
//! The words are split with `concat!` here, so that this file does not find itself.

use super::Violation;
use super::tree::{File, Tree};

/// Text that may not occur, where, and what to do instead.
struct Word {
    text: &'static str,
    applies: fn(&File) -> bool,
    /// Continuations that make it another word.
    unless_followed_by: &'static [&'static str],
    allowed_in_tests: bool,
    advice: &'static str,
}

const UNFINISHED: &str = "finish it, or leave it out and say so in an issue";
const ONE_MACHINE: &str =
    "a path of one machine: take it from a flag, a variable or the repository";
const REGISTRY: &str = "name no package registry: tools take theirs from their own configuration";

const fn word(text: &'static str, applies: fn(&File) -> bool, advice: &'static str) -> Word {
    Word {
        text,
        applies,
        unless_followed_by: &[],
        allowed_in_tests: false,
        advice,
    }
}

const WORDS: &[Word] = &[
    word(concat!("to", "do!"), is_rust, UNFINISHED),
    word(
        concat!("db", "g!"),
        is_rust,
        "remove it, or log with `tracing`",
    ),
    word(concat!("FIX", "ME"), is_ours, UNFINISHED),
    Word {
        text: concat!("sle", "ep(Duration"),
        applies: is_product,
        unless_followed_by: &[],
        allowed_in_tests: true,
        advice: "a guess: wait for the condition, or for a time that a constant names and explains",
    },
    word(concat!("/wo", "rk/"), is_ours, ONE_MACHINE),
    Word {
        text: concat!("/ro", "ot/"),
        applies: is_read_outside_images,
        // Where images that run as root keep their keys: Kubeflow's default, so it is product.
        unless_followed_by: &[".ssh"],
        allowed_in_tests: false,
        advice: ONE_MACHINE,
    },
    word(concat!("crates", ".io"), is_ours, REGISTRY),
    word(concat!("pypi", ".org"), is_ours, REGISTRY),
    word(concat!("proxy.", "golang.org"), is_ours, REGISTRY),
    word(concat!("registry.", "npmjs.org"), is_ours, REGISTRY),
    word(concat!("deb.", "debian.org"), is_ours, REGISTRY),
];

/// Phrases that are not English, or that no engineer would search for, and what to write.
const PHRASES: [(&str, &str); 6] = [
    (concat!("for ", "ever"), "forever, or without end"),
    (concat!("as good ", "as"), "nearly, or equal to"),
    (concat!("made ", "again"), "recreated, or retried"),
    (concat!("not yet ", "there"), "missing so far"),
    (concat!("in ", "vain"), "without success"),
    (concat!("such a ", "job"), "name the job that is meant"),
];

/// Plain English in code and documents.
pub(super) fn check_phrases(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let texts = tree.files.iter();
    for file in texts.filter(|file| matches!(file.extension(), "rs" | "md")) {
        for (number, line) in file.lines() {
            let ends = |rest: &str| !rest.starts_with(|char: char| char.is_alphabetic());
            let has = |phrase: &str| line.split(phrase).skip(1).any(ends);
            for (phrase, better) in PHRASES.iter().filter(|(phrase, _)| has(phrase)) {
                let advice = format!("\"{phrase}\": write {better}");
                found.push(Violation::new(&file.path, number, advice));
            }
        }
    }
    found
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in &tree.files {
        let words: Vec<_> = WORDS.iter().filter(|word| (word.applies)(file)).collect();
        let tests = file.test_lines();
        for (number, line) in file.lines() {
            for word in &words {
                let excused = word.allowed_in_tests && tests.contains(&number);
                if !excused && occurs(line, word) {
                    let advice = format!("`{}`: {}", word.text, word.advice);
                    found.push(Violation::new(&file.path, number, advice));
                }
            }
        }
    }
    found.extend(tree.with_extension("rs").flat_map(silenced_without_reason));
    found
}

/// As a word of its own: `network/` does not contain the folder that its end spells.
fn occurs(line: &str, word: &Word) -> bool {
    line.match_indices(word.text).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + word.text.len()..];
        !before.is_some_and(|char| char.is_alphanumeric() || "_-.*".contains(char))
            && !word
                .unless_followed_by
                .iter()
                .any(|other| after.starts_with(other))
    })
}

/// Attributes that silence a lint and do not say why.
fn silenced_without_reason(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for opening in [concat!("[all", "ow("), concat!("[exp", "ect(")] {
        for (at, _) in file.text.match_indices(opening) {
            let is_attribute = file.text[..at].ends_with(['#', '!']);
            let attribute = file.text[at..].split(")]").next().unwrap_or_default();
            if is_attribute && !attribute.contains("reason") {
                let line = file.text[..at].lines().count();
                let advice = "a silenced lint needs `reason = \"…\"`; prefer `expect` to `allow`";
                found.push(Violation::new(&file.path, line, advice));
            }
        }
    }
    found
}

fn is_rust(file: &File) -> bool {
    file.extension() == "rs"
}

fn is_product(file: &File) -> bool {
    is_rust(file) && file.path.starts_with("crates/") && file.path.contains("/src/")
}

/// Written by us: lock files are written by tools, and name where things came from.
fn is_ours(file: &File) -> bool {
    !file.path.ends_with("Cargo.lock") && !matches!(file.extension(), "sum" | "mod")
}

/// Scripts run inside an image too, where root's home is nobody's machine.
fn is_read_outside_images(file: &File) -> bool {
    matches!(file.extension(), "rs" | "go" | "md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn breaks(path: &str, text: &str) -> bool {
        !violations(path, text).is_empty()
    }

    #[test]
    fn unfinished_work_is_found() {
        assert!(breaks("a.rs", concat!("fn a() { to", "do!() }")));
        assert!(breaks("a.rs", concat!("    db", "g!(x);")));
        assert!(breaks("a.sh", concat!("# FIX", "ME: later")));
        let found = violations("a.rs", concat!("//! A.\n\n// FIX", "ME\n"));
        assert!(found[0].starts_with("a.rs:3: "), "{found:?}");
    }

    #[test]
    fn a_silenced_lint_without_a_reason_is_found_and_one_with_a_reason_is_not() {
        assert!(breaks(
            "a.rs",
            concat!("#[all", "ow(dead_code)]\nfn a() {}")
        ));
        assert!(breaks("a.rs", concat!("#![all", "ow(dead_code)]\n")));
        assert!(breaks(
            "a.rs",
            concat!("#[exp", "ect(\n    dead_code\n)]\n")
        ));
        let reasoned = concat!(
            "#[exp",
            "ect(\n    dead_code,\n    reason = \"used by e2e\"\n)]\n"
        );
        assert!(!breaks("a.rs", reasoned));
        let found = violations("a.rs", concat!("//! A.\n\n#[all", "ow(dead_code)]\n"));
        assert!(found[0].starts_with("a.rs:3: "), "{found:?}");
    }

    #[test]
    fn sleeping_for_a_guessed_time_is_for_tests_and_chores() {
        let sleep = concat!("//! A.\nfn a() { sle", "ep(Duration::from_secs(1)) }\n");
        assert!(breaks("crates/controller/src/lease.rs", sleep));
        assert!(!breaks("xtask/src/cluster.rs", sleep));
        assert!(!breaks("crates/controller/tests/shell.rs", sleep));
        let named = concat!("fn a() { time::sle", "ep(GATHERING) }");
        assert!(!breaks("crates/controller/src/lease.rs", named));
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert!(breaks("README.md", concat!("see /wo", "rk/main/README.md")));
        assert!(breaks(
            "e2e/cluster/main.go",
            concat!("\"/ro", "ot/.cache/x\"")
        ));
        assert!(!breaks("a.rs", concat!("\"/ro", "ot/.ssh\"")));
        assert!(!breaks("e2e/images/a.sh", concat!("rm /ro", "ot/.profile")));
        assert!(
            !breaks("a.rs", concat!("\"target/wo", "rk/x\"")),
            "relative: not of one machine"
        );
    }

    #[test]
    fn a_phrase_that_is_not_english_is_found_in_comments_and_documents() {
        let text = concat!("It waits for ", "ever.\nFor every job, for every pod.\n");
        let found = check_phrases(&Tree::of(&[("docs/a.md", text), ("a.yaml", text)]));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].to_string().starts_with("docs/a.md:1: "),
            "{found:?}"
        );
    }

    #[test]
    fn registries_are_found_except_in_lock_files() {
        for host in [
            concat!("crates", ".io"),
            concat!("pypi", ".org"),
            concat!("deb.", "debian.org"),
        ] {
            let line = format!("from https://{host}/x\n");
            assert!(breaks("docs/a.md", &line), "{host}");
            assert!(!breaks("Cargo.lock", &line), "{host}");
            assert!(!breaks("e2e/cluster/go.sum", &line), "{host}");
        }
    }
}
