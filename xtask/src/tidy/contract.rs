//! What two of our programs agree on is spelled in `crates/contract` alone. Decides which texts those
//! are: the constants of that crate that are not plain words, and everything that begins like one of
//! our variables, labels and annotations.

use std::collections::BTreeSet;

use super::Violation;
use super::rust::{Source, Token, string};

/// What the names begin with that only the contract may make up.
const PREFIXES: [&str; 3] = ["MUSTER_", "muster.dev/", "training.kubeflow.org/"];
/// It imitates Kubernetes and knows nothing of ours; what it spells the same is Kubernetes' own.
const NOT_OURS: &str = "minicluster";

pub(super) fn check(sources: &[Source<'_>]) -> Vec<Violation> {
    let (contract, others): (Vec<_>, Vec<_>) = sources
        .iter()
        .filter(|source| source.krate != NOT_OURS)
        .partition(|source| source.krate == "contract");
    let agreed: BTreeSet<_> = contract.into_iter().flat_map(constants).collect();
    let mut found = Vec::new();
    for source in others {
        for (at, token) in source.tokens.iter().enumerate() {
            let Some(text) = string(&token.text) else {
                continue;
            };
            if is_of_compiler(&source.tokens[..at]) || is_api_version(text) {
                continue;
            }
            if agreed.contains(text) || PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
                let advice = format!("\"{text}\" is spelled in crates/contract: use its constant");
                found.push(Violation::new(&source.file.path, token.line, advice));
            }
        }
    }
    found
}

/// What `env!` reads is between the compiler and the build, and must be written out.
fn is_of_compiler(before: &[Token]) -> bool {
    let last: Vec<_> = before
        .iter()
        .rev()
        .take(3)
        .map(|token| token.text.as_str())
        .collect();
    matches!(last.as_slice(), ["(", "!", "env" | "option_env"])
}

/// `muster.dev/v1alpha1` is a dialect's own.
fn is_api_version(text: &str) -> bool {
    let version = text.split_once("/v").map(|(_, version)| version);
    version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

/// Texts of a file of the contract that stand for nothing else: a plain word may mean anything.
fn constants<'a>(source: &'a Source<'_>) -> impl Iterator<Item = &'a str> {
    let texts = source.tokens.iter().filter_map(|token| string(&token.text));
    texts.filter(|text| {
        text.len() > 4 && text.contains(['/', '_', '-', '.']) && !text.contains([' ', '{'])
    })
}

#[cfg(test)]
mod tests {
    use super::super::rust;
    use super::super::tree::Tree;
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let contract =
            "pub const TLS: &str = \"muster-tls\";\npub const SERVE: &str = \"serve\";\n";
        let files = [("crates/contract/src/files.rs", contract), (path, text)];
        let tree = Tree::of(&files);
        check(&rust::sources(&tree))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_text_that_the_contract_has_is_found_elsewhere() {
        let found = violations(
            "crates/planner/src/render.rs",
            "fn a() -> &str {\n    \"muster-tls\"\n}\n",
        );
        assert_eq!(
            found,
            [
                "crates/planner/src/render.rs:2: \"muster-tls\" is spelled in crates/contract: use its \
              constant"
            ]
        );
    }

    #[test]
    fn a_variable_or_label_of_ours_is_found_also_if_the_contract_does_not_know_it() {
        assert_eq!(
            violations(
                "crates/cli/src/args.rs",
                "#[arg(env = \"MUSTER_NEW\")]\nstruct A;"
            )
            .len(),
            1
        );
        assert_eq!(
            violations("crates/agent/src/a.rs", "const A: &str = \"muster.dev/a\";").len(),
            1
        );
    }

    #[test]
    fn what_the_compiler_reads_and_versions_of_an_api_are_free() {
        assert!(
            violations(
                "crates/cli/src/a.rs",
                "const A: &str = env!(\"MUSTER_GIT_SHA\");"
            )
            .is_empty()
        );
        assert!(violations("crates/cli/src/a.rs", "const A: &str = \"muster.dev/v1\";").is_empty());
    }

    #[test]
    fn plain_words_comments_tests_and_the_model_of_kubernetes_are_free() {
        assert!(violations("crates/agent/src/a.rs", "const A: &str = \"serve\";").is_empty());
        assert!(
            violations(
                "crates/agent/src/a.rs",
                "//! `muster-tls` and \"MUSTER_A\".\n"
            )
            .is_empty()
        );
        assert!(violations("crates/agent/tests/a.rs", "const A: &str = \"MUSTER_A\";").is_empty());
        assert!(
            violations(
                "crates/minicluster/src/a.rs",
                "const A: &str = \"muster-tls\";"
            )
            .is_empty()
        );
    }
}
