//! One name, one meaning: no two types share a name where somebody could see both. Decides which those
//! are: public types of any two crates, and types of one crate that all of it can see.

use std::collections::BTreeMap;

use super::Violation;
use super::rust::Source;

const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// A type at the top level of a file.
struct Type<'a> {
    name: &'a str,
    krate: &'a str,
    /// Visible to other crates, too.
    is_public: bool,
    file: &'a str,
    line: usize,
}

pub(super) fn check(sources: &[Source<'_>]) -> Vec<Violation> {
    let mut by_name: BTreeMap<&str, Vec<Type<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !is_in_dialect(source)) {
        for one in visible_types(source) {
            by_name.entry(one.name).or_default().push(one);
        }
    }
    let mut found = Vec::new();
    for types in by_name.values() {
        for (index, one) in types.iter().enumerate() {
            let meets =
                |other: &&Type<'_>| one.krate == other.krate || one.is_public && other.is_public;
            if let Some(Type { file, line, .. }) = types[..index].iter().find(meets) {
                let advice = format!("`{}` is also a type of {file}:{line}: rename one", one.name);
                found.push(Violation::new(one.file, one.line, advice));
            }
        }
    }
    found
}

/// A dialect spells its types as its users do, and its folder says whose they are.
fn is_in_dialect(source: &Source<'_>) -> bool {
    source.krate == "dialects" && source.module.len() > 1
}

/// Types that at least all of the crate can see.
fn visible_types<'a>(source: &'a Source<'_>) -> Vec<Type<'a>> {
    let mut depth = 0;
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if token.text != "pub" || depth > 0 {
            continue;
        }
        let mut words = source.tokens[at + 1..]
            .iter()
            .map(|token| token.text.as_str());
        let next: Vec<_> = words.by_ref().take(5).collect();
        let (is_public, item) = match next.as_slice() {
            ["(", "crate", ")", item @ ..] => (false, item),
            item => (true, item),
        };
        if let [keyword, name, ..] = item
            && KEYWORDS.contains(keyword)
        {
            found.push(Type {
                name,
                krate: source.krate,
                is_public,
                file: &source.file.path,
                line: token.line,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::rust;
    use super::super::tree::Tree;
    use super::*;

    fn violations(one: &str, other: &str) -> Vec<String> {
        let files = [
            ("crates/agent/src/verdict.rs", one),
            ("crates/planner/src/plan.rs", other),
        ];
        let tree = Tree::of(&files);
        check(&rust::sources(&tree))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn one_name_for_two_public_types_is_found() {
        let found = violations("pub struct Verdict {}\n", "//! P.\n\npub enum Verdict {}\n");
        assert_eq!(
            found,
            ["crates/planner/src/plan.rs:3: `Verdict` is also a type of \
              crates/agent/src/verdict.rs:1: rename one"]
        );
    }

    #[test]
    fn what_a_module_keeps_to_itself_may_be_called_anything() {
        assert!(violations("pub struct Verdict;", "pub(super) enum Verdict {}").is_empty());
        assert!(violations("pub struct Verdict;", "pub(crate) enum Verdict {}").is_empty());
        assert!(violations("pub struct Verdict;", "mod a { pub enum Verdict {} }").is_empty());
        assert!(violations("pub struct Verdict;", "pub struct Outcome;").is_empty());
    }
}
