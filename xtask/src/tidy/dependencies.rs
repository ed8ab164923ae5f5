//! Who may use whom. Decides which of our crates may depend on which, and what a pure crate may
//! not be able to do: reach a network, a clock's sleep, or randomness through any dependency.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::Violation;
use super::tree::{File, Tree};
use crate::command;

/// One of our crates and those of ours that it may use.
struct Row {
    name: &'static str,
    /// Nothing in its closure may do I/O.
    pure: bool,
    uses: &'static [&'static str],
    tests_also_use: &'static [&'static str],
}

const ALL: &[&str] = &[
    "contract",
    "quantity",
    "planner",
    "dialects",
    "minicluster",
    "agent",
    "controller",
    "cli",
];

/// Benchmarks use the cluster of the tests, and their kubelet.
const WITH_TESTS: &[&str] = &["minicluster", "e2e"];

const fn row(name: &'static str, pure: bool, uses: &'static [&'static str]) -> Row {
    Row {
        name,
        pure,
        uses,
        tests_also_use: &[],
    }
}

/// Everything not listed is forbidden.
const TABLE: &[Row] = &[
    row("contract", true, &[]),
    row("quantity", true, &[]),
    row("planner", true, &["contract", "quantity"]),
    row("dialects", true, &["contract", "planner", "quantity"]),
    row("minicluster", true, &["quantity"]),
    row("agent", false, &["contract"]),
    Row {
        tests_also_use: &["minicluster"],
        ..row("controller", false, &["contract", "planner", "dialects"])
    },
    row(
        "cli",
        false,
        &[
            "contract",
            "planner",
            "dialects",
            "controller",
            "minicluster",
            "quantity",
        ],
    ),
    row(
        "simulator",
        false,
        &[
            "contract",
            "planner",
            "dialects",
            "controller",
            "minicluster",
        ],
    ),
    row("xtask", false, &["contract", "dialects"]),
    row("e2e", false, ALL),
    row("bench", false, WITH_TESTS),
    row("fuzz", false, ALL),
];

/// Crates that do I/O, run other code in time, or are not deterministic. A client or a runtime
/// cannot come in without one of these.
const NOT_PURE: &[&str] = &[
    "async-std",
    "fastrand",
    "getrandom",
    "hyper",
    "kube",
    "kube-client",
    "kube-runtime",
    "mio",
    "notify",
    "rand",
    "rand_core",
    "reqwest",
    "smol",
    "socket2",
    "tokio",
    "ureq",
];

/// Everything that each pure crate is made of, as `cargo tree` prints it with depths, for the system
/// that our binaries ship to.
pub(super) fn closures() -> Result<BTreeMap<&'static str, String>> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let pure = TABLE.iter().filter(|row| row.pure);
    let closure = |row: &Row| {
        let mut cargo = command::cargo("tree");
        cargo.args([
            "--locked",
            "--edges=normal",
            "--prefix=depth",
            "--target",
            &platform,
        ]);
        let text = command::output(cargo.args(["--package", row.name]))
            .context("cannot read the dependency graph; if Cargo.lock is old, build first")?;
        Ok((row.name, text))
    };
    pure.map(closure).collect()
}

pub(super) fn check(tree: &Tree, closures: &BTreeMap<&'static str, String>) -> Vec<Violation> {
    let manifests = tree.files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        Some((file, folder.strip_prefix("crates/").unwrap_or(folder)))
    });
    let mut found = Vec::new();
    // Deeper ones are workspaces of their own.
    for (file, name) in manifests.filter(|(_, name)| !name.contains('/')) {
        let Some(row) = TABLE.iter().find(|row| row.name == name) else {
            let advice = "the crate has no row in the table of xtask/src/tidy/dependencies.rs: \
                          say there what it may use";
            found.push(Violation::new(&file.path, 1, advice));
            continue;
        };
        found.extend(forbidden(file, row));
        for chain in closures.get(name).map_or(Vec::new(), |text| not_pure(text)) {
            let advice = format!("a pure crate can do I/O: {}", chain.join(" → "));
            let line = file.lines().find(|(_, line)| is_about(line, chain[1]));
            found.push(Violation::new(
                &file.path,
                line.map_or(1, |(number, _)| number),
                advice,
            ));
        }
    }
    found
}

/// Crates of ours that the table does not grant.
fn forbidden(manifest: &File, row: &Row) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut section = "";
    for (number, line) in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let used = TABLE.iter().find(|other| is_about(line, other.name));
        let Some(name) = used
            .map(|used| used.name)
            .filter(|_| section.contains("dependencies"))
        else {
            continue;
        };
        // A crate names itself in its tests to turn its own features on.
        let in_tests = section.contains("dev-");
        let granted = row.uses.contains(&name)
            || in_tests && (row.tests_also_use.contains(&name) || name == row.name);
        if !granted {
            let advice = format!("`{}` may not use `{name}`: move what it needs", row.name);
            found.push(Violation::new(&manifest.path, number, advice));
        }
    }
    found
}

/// Whether a line of a manifest names a dependency.
fn is_about(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix(name);
    rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
}

/// The ways to impure crates in what `cargo tree` printed: the crate itself, then who leads there.
fn not_pure(closure: &str) -> Vec<Vec<&str>> {
    let mut way = Vec::new();
    let mut found = Vec::new();
    for line in closure.lines() {
        let name = line.trim_start_matches(|char: char| char.is_ascii_digit());
        let depth = line[..line.len() - name.len()].parse().unwrap_or(0);
        way.truncate(depth);
        way.push(name.split(' ').next().unwrap_or(name));
        if way.last().is_some_and(|name| NOT_PURE.contains(name)) {
            found.push(way.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(name: &str, manifest: &str, closure: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        let tree = Tree::of(&[(&path, manifest)]);
        let closures = BTreeMap::from([("planner", closure.to_owned())]);
        let found = check(&tree, &closures);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pure_crate_that_reaches_io_through_another_crate_is_found() {
        let closure = "0planner v0.1.0 (/repo/crates/planner)\n1jiff v0.2.0\n1serde v1.0.0\n2tokio v1.0.0 (*)";
        assert_eq!(
            violations(
                "planner",
                "[dependencies]\nserde.workspace = true\n",
                closure
            ),
            ["crates/planner/Cargo.toml:2: a pure crate can do I/O: planner → serde → tokio"]
        );
        assert!(violations("controller", "[dependencies]\ntokio = \"1\"\n", closure).is_empty());
    }

    #[test]
    fn a_crate_that_the_table_does_not_grant_is_found() {
        let found = violations("planner", "[dependencies]\ndialects.workspace = true\n", "");
        assert_eq!(
            found,
            ["crates/planner/Cargo.toml:2: `planner` may not use `dialects`: move what it needs"]
        );
        let granted = "[dependencies]\nplanner = { workspace = true }\n";
        assert!(violations("dialects", granted, "").is_empty());
    }

    #[test]
    fn the_controller_may_use_minicluster_in_its_tests_only() {
        let used = "minicluster.workspace = true\n";
        let in_tests = format!("[dependencies]\n\n[dev-dependencies]\n{used}");
        assert!(violations("controller", &in_tests, "").is_empty());
        assert_eq!(
            violations("controller", &format!("[dependencies]\n{used}"), "").len(),
            1
        );
        let own = "[dev-dependencies]\nplanner = { path = \".\" }\n";
        assert!(violations("planner", own, "").is_empty());
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let found = violations("stray", "", "");
        assert!(
            found[0].starts_with("crates/stray/Cargo.toml:1: the crate has no row"),
            "{found:?}"
        );
    }
}
