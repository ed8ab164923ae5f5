//! What we link of others: from where, under which licence, and what never. Reads the rules of deny.toml,
//! so that `cargo deny` and this rule agree, and needs no network. Advisories are not checked here: their
//! database changes every day, and is not part of the repository.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Violation;
use super::tree::Tree;
use crate::command::{self, cargo};

const RULES: &str = "deny.toml";

/// A package that cargo links into one of our programs or tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    name: String,
    licence: String,
    /// Nothing for a package of our own.
    source: Option<String>,
}

/// All packages, as cargo resolves them for the systems that we ship for. On a new machine, cargo
/// downloads those that it does not have yet.
pub(super) fn packages() -> Result<Vec<Package>> {
    let mut metadata = cargo("metadata");
    metadata.args(["--format-version=1", "--locked", "--all-features"]);
    for target in ["x86_64", "aarch64"] {
        metadata.arg(format!("--filter-platform={target}-unknown-linux-gnu"));
    }
    let metadata = command::output(&mut metadata)?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is no JSON")?;
    let linked: BTreeSet<&str> = list(&metadata["resolve"]["nodes"])
        .filter_map(|node| node["id"].as_str())
        .collect();
    let packages = list(&metadata["packages"]);
    let packages = packages.filter(|package| {
        let id = package["id"].as_str();
        id.is_some_and(|id| linked.contains(id))
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(packages
        .map(|package| Package {
            name: text(&package["name"]),
            licence: text(&package["license"]),
            source: package["source"].as_str().map(str::to_owned),
        })
        .collect())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Every package that the rules do not allow.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Violation> {
    let rules = tree.files.iter().find(|file| file.path == RULES);
    let Some(rules) = rules else {
        return vec![Violation::new(
            RULES,
            1,
            "is missing: it lists what may be linked",
        )];
    };
    let (allowed, banned) = (texts(&rules.text, "allow = ["), crates(&rules.text));
    let problem = |package: &Package| {
        let Package {
            name,
            licence,
            source,
        } = package;
        if banned.contains(name.as_str()) {
            return Some(format!("{name} is banned by {RULES}"));
        }
        let source = source.as_ref()?;
        if !source.starts_with("registry+") {
            return Some(format!(
                "{name} comes from {source}: use a released version"
            ));
        }
        let is_allowed = is_allowed(licence, &allowed);
        (!is_allowed)
            .then(|| format!("{name} has the licence `{licence}`, which {RULES} does not allow"))
    };
    let found = packages.iter().filter_map(problem);
    found
        .map(|advice| Violation::new("Cargo.lock", 1, advice))
        .collect()
}

/// The texts of the list that begins in this line.
fn texts<'r>(rules: &'r str, begin: &str) -> BTreeSet<&'r str> {
    let lines = rules
        .lines()
        .skip_while(|line| line.trim() != begin)
        .skip(1);
    let lines = lines.take_while(|line| line.trim() != "]");
    lines.filter_map(|line| line.split('"').nth(1)).collect()
}

/// Names in lines such as `{ crate = "name", reason = "…" },`.
fn crates(rules: &str) -> BTreeSet<&str> {
    let named = rules
        .lines()
        .filter_map(|line| line.split_once("crate = \""));
    named
        .filter_map(|(_, rest)| rest.split('"').next())
        .collect()
}

/// Whether an SPDX expression can be satisfied with these licences. Old packages write `/` for `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('/', " OR ");
    let spaced = spaced.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut holds = all(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        holds |= all(rest, allowed);
    }
    holds
}

fn all(rest: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut holds = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        holds &= one(rest, allowed);
    }
    holds
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let holds = any(rest, allowed);
            match *rest {
                [")", after @ ..] => *rest = after,
                _ => return false,
            }
            holds
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(format!("{licence} WITH {exception}").as_str())
        }
        [licence, after @ ..] => {
            *rest = after;
            allowed.contains(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &str = "[licenses]\nallow = [\n  \"MIT\",\n  \"Apache-2.0 WITH LLVM-exception\",\n]\n\
        [bans]\ndeny = [\n  { crate = \"openssl\", reason = \"one TLS library\" },\n]\n";

    fn package(name: &str, licence: &str, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            licence: licence.to_owned(),
            source: source.map(str::to_owned),
        }
    }

    #[test]
    fn s16_what_deny_toml_does_not_allow_is_found() {
        let tree = Tree::of(&[(RULES, SOME)]);
        let registry = Some("registry+index");
        let found = check(
            &tree,
            &[
                package("ours", "", None),
                package("good", "MIT", registry),
                package("openssl", "MIT", registry),
                package("forked", "MIT", Some("git+place#1")),
                package("strict", "GPL-3.0-only", registry),
                package("unnamed", "", registry),
            ],
        );
        let found: Vec<&str> = found.iter().map(|found| found.advice.as_str()).collect();
        assert_eq!(
            found,
            [
                "openssl is banned by deny.toml",
                "forked comes from git+place#1: use a released version",
                "strict has the licence `GPL-3.0-only`, which deny.toml does not allow",
                "unnamed has the licence ``, which deny.toml does not allow",
            ]
        );
    }

    #[test]
    fn expressions_are_read_as_spdx_has_them() {
        let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
        for (expression, holds) in [
            ("MIT", true),
            ("MIT OR GPL-2.0", true),
            ("GPL-2.0/MIT", true),
            ("MIT AND GPL-2.0", false),
            ("(GPL-2.0 OR MIT) AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception OR X", true),
            ("Apache-2.0", false),
            ("(MIT", false),
            ("MIT ISC", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), holds, "{expression}");
        }
    }
}
