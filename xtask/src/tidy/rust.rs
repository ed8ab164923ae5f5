//! Rust sources as the rules see them: which files are product code, and their tokens, without
//! comments and tests. Decides what belongs to which module of which crate; knows no rule.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tree::{File, Tree};

/// A file of product code.
pub(super) struct Source<'a> {
    pub(super) file: &'a File,
    pub(super) krate: &'a str,
    /// Its module: empty for the crate's root.
    pub(super) module: Vec<&'a str>,
    pub(super) tokens: Vec<Token>,
}

/// One token with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) text: String,
}

/// All product code below `crates`, without tests and builders for tests.
pub(super) fn sources(tree: &Tree) -> Vec<Source<'_>> {
    let read = |file| {
        let (krate, module) = place(file)?;
        let tokens = tokens(file)?;
        Some(Source {
            file,
            krate,
            module,
            tokens,
        })
    };
    tree.with_extension("rs").filter_map(read).collect()
}

/// The crate and the module of a file, if it is product code.
fn place(file: &File) -> Option<(&str, Vec<&str>)> {
    let (krate, path) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Vec<_> = path.strip_suffix(".rs")?.split('/').collect();
    if file.is_test() {
        return None;
    }
    if matches!(module.as_slice(), ["lib" | "main"]) {
        module.clear();
    }
    Some((krate, module))
}

/// The tokens of a file's product code. What is not Rust has none; the compiler will complain.
fn tokens(file: &File) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    flatten(file.text.parse().ok()?, &mut found);
    let tests = file.test_lines();
    found.retain(|token| !tests.contains(&token.line));
    Some(found)
}

fn flatten(stream: TokenStream, found: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        let token = |line, text: String| Token { line, text };
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                found.push(token(line, open.to_owned()));
                flatten(group.stream(), found);
                found.push(token(group.span_close().start().line, close.to_owned()));
            }
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                // What documentation comments are for the compiler: `#[doc = "…"]` or `#![…]`.
                let is_inner = |tree: &TokenTree| tree.to_string() == "!";
                let inner = trees.next_if(is_inner).is_some();
                if trees.next_if(is_documentation).is_none() {
                    found.push(token(line, "#".to_owned()));
                    found.extend(inner.then(|| token(line, "!".to_owned())));
                }
            }
            other => found.push(token(line, other.to_string())),
        }
    }
}

fn is_documentation(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else {
        return false;
    };
    let first = group.stream().into_iter().next();
    first.is_some_and(|first| first.to_string() == "doc")
}

/// What a string literal holds, as it is written, without escapes undone.
pub(super) fn string(token: &str) -> Option<&str> {
    let inner = token.trim_start_matches(['b', 'c', 'r']);
    let inner = inner.trim_matches('#');
    inner.strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_no_tokens_of_the_product() {
        let text = "//! A.\n/// One.\n#[derive(Debug)]\nstruct A; // two\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        let tree = Tree::of(&[("crates/planner/src/plan/gang.rs", text)]);
        let sources = sources(&tree);
        assert_eq!(sources[0].krate, "planner");
        assert_eq!(sources[0].module, ["plan", "gang"]);
        let words: Vec<_> = sources[0]
            .tokens
            .iter()
            .map(|token| token.text.as_str())
            .collect();
        assert_eq!(words.join(" "), "# [ derive ( Debug ) ] struct A ;");
        assert_eq!(sources[0].tokens[7].line, 4);
    }

    #[test]
    fn tests_tools_and_other_languages_are_no_product() {
        let files = [
            ("crates/planner/tests/a.rs", "fn a() {}"),
            ("crates/planner/src/a/tests.rs", "fn a() {}"),
            ("xtask/src/main.rs", "fn a() {}"),
            ("crates/planner/src/lib.md", "fn a() {}"),
        ];
        assert!(sources(&Tree::of(&files)).is_empty());
    }

    #[test]
    fn a_string_is_read_without_its_quotes() {
        assert_eq!(string("\"a/b\""), Some("a/b"));
        assert_eq!(string("r#\"a\"#"), Some("a"));
        assert_eq!(string("'a'"), None);
        assert_eq!(string("name"), None);
    }
}
