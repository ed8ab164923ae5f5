//! Who may use whom. Decides which of our crates may depend on which, and what a pure crate may
//! not be able to do: reach a network, a clock's sleep, or randomness through any dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Violation;
use super::tree::Tree;
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
    "planner",
    "dialects",
    "minicluster",
    "agent",
    "controller",
    "cli",
    "simulator",
];

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
    row("planner", true, &["contract"]),
    row("dialects", true, &["contract", "planner"]),
    row("minicluster", true, &[]),
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
        ],
    ),
    row("simulator", false, &["planner", "dialects", "minicluster"]),
    row("xtask", false, &["dialects"]),
    row("e2e", false, ALL),
    row("bench", false, ALL),
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

/// What `cargo metadata` says, as far as it matters here.
#[derive(Deserialize)]
pub(super) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    workspace_root: String,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Metadata {
    /// Asks cargo about the workspace, for the system that our binaries ship to.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut cargo = Command::new("cargo");
        cargo.args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            &platform,
        ]);
        let json = command::output(cargo.current_dir(root))
            .context("cannot read the dependency graph; if Cargo.lock is old, build first")?;
        serde_json::from_str(&json).context("cargo metadata printed something unexpected")
    }

    fn manifest(&self, package: &Package) -> String {
        let path = package.manifest_path.strip_prefix(&self.workspace_root);
        path.unwrap_or(&package.manifest_path)
            .trim_start_matches('/')
            .to_owned()
    }
}

pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Violation> {
    let members = metadata
        .packages
        .iter()
        .filter(|package| metadata.workspace_members.contains(&package.id));
    let mut found = Vec::new();
    for package in members {
        let manifest = metadata.manifest(package);
        let Some(row) = TABLE.iter().find(|row| row.name == package.name) else {
            let advice = "the crate has no row in the table of xtask/src/tidy/dependencies.rs: \
                          say there what it may use";
            found.push(Violation::new(&manifest, 1, advice));
            continue;
        };
        let place = |name: &str, advice: String| {
            Violation::new(&manifest, mentioned(tree, &manifest, name), advice)
        };
        found.extend(forbidden(package, row).into_iter().map(|name| {
            place(
                name,
                format!("`{}` may not use `{name}`: move what it needs", row.name),
            )
        }));
        if row.pure {
            found.extend(
                not_pure(metadata, package)
                    .into_iter()
                    .map(|(name, chain)| {
                        let advice = format!("a pure crate can do I/O through `{name}`: {chain}");
                        place(chain.split(" → ").nth(1).unwrap_or(name), advice)
                    }),
            );
        }
    }
    found
}

/// Crates of ours that the table does not grant.
fn forbidden<'a>(package: &'a Package, row: &Row) -> Vec<&'a str> {
    let granted = |dependency: &Dependency| {
        let name = dependency.name.as_str();
        let in_tests = dependency.kind.as_deref() == Some("dev");
        // A crate names itself in its tests to turn its own features on.
        row.uses.contains(&name)
            || in_tests && (row.tests_also_use.contains(&name) || name == row.name)
    };
    let ours = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some());
    ours.filter(|dependency| !granted(dependency))
        .map(|dependency| dependency.name.as_str())
        .collect()
}

/// Impure crates in the normal dependency closure, each with the chain that leads to it.
fn not_pure<'a>(metadata: &'a Metadata, package: &'a Package) -> Vec<(&'a str, String)> {
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let names: BTreeMap<&str, &str> = metadata
        .packages
        .iter()
        .map(|package| (package.id.as_str(), package.name.as_str()))
        .collect();
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([package.id.as_str()]);
    let mut open = vec![(package.id.as_str(), package.name.clone())];
    while let Some((id, chain)) = open.pop() {
        for edge in nodes.get(id).map(|node| &node.deps).into_iter().flatten() {
            let normal = edge.dep_kinds.iter().any(|edge| edge.kind.is_none());
            let Some(name) = names.get(edge.pkg.as_str()).filter(|_| normal) else {
                continue;
            };
            if !seen.insert(&edge.pkg) {
                continue;
            }
            let chain = format!("{chain} → {name}");
            if NOT_PURE.contains(name) {
                found.push((*name, chain));
            } else {
                open.push((&edge.pkg, chain));
            }
        }
    }
    found
}

/// The line of a manifest that names a dependency, or the first.
fn mentioned(tree: &Tree, manifest: &str, name: &str) -> usize {
    let file = tree.files.iter().find(|file| file.path == manifest);
    let names = |line: &str| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    file.and_then(|file| file.lines().find(|(_, line)| names(line)))
        .map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A workspace from its edges: from, to, kind. Crates in the table are ours.
    fn metadata(edges: &[(&str, &str, Option<&str>)]) -> Metadata {
        let ours = |name: &str| name == "stray" || TABLE.iter().any(|row| row.name == name);
        let names: BTreeSet<&str> = edges
            .iter()
            .flat_map(|(from, to, _)| [*from, *to])
            .collect();
        let from = |name: &str| -> Vec<_> {
            edges
                .iter()
                .filter(|(from, ..)| *from == name)
                .copied()
                .collect()
        };
        let package = |name: &&str| -> Value {
            let dependencies: Vec<_> = from(name)
                .iter()
                .map(|(_, to, kind)| {
                    let path = ours(to).then(|| format!("/repo/crates/{to}"));
                    json!({"name": to, "kind": kind, "path": path})
                })
                .collect();
            json!({"id": name, "name": name, "dependencies": dependencies,
                   "manifest_path": format!("/repo/crates/{name}/Cargo.toml")})
        };
        let node = |name: &&str| -> Value {
            let deps: Vec<_> = from(name)
                .iter()
                .map(|(_, to, kind)| json!({"pkg": to, "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": name, "deps": deps})
        };
        let members: Vec<_> = names.iter().filter(|name| ours(name)).collect();
        serde_json::from_value(json!({
            "packages": names.iter().map(package).collect::<Vec<_>>(),
            "workspace_members": members,
            "workspace_root": "/repo",
            "resolve": {"nodes": names.iter().map(node).collect::<Vec<_>>()},
        }))
        .expect("the value above has the shape of cargo metadata")
    }

    fn violations(edges: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let manifest = "[dependencies]\nserde.workspace = true\n";
        let tree = Tree::of(&[("crates/planner/Cargo.toml", manifest)]);
        check(&tree, &metadata(edges))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_pure_crate_that_reaches_io_through_another_crate_is_found() {
        let found = violations(&[("planner", "serde", None), ("serde", "tokio", None)]);
        assert_eq!(
            found,
            [
                "crates/planner/Cargo.toml:2: a pure crate can do I/O through `tokio`: \
              planner → serde → tokio"
            ]
        );
        assert!(
            !violations(&[("dialects", "planner", None), ("planner", "rand", None)]).is_empty()
        );
    }

    #[test]
    fn tests_and_build_scripts_of_a_pure_crate_may_do_io() {
        let edges = [
            ("planner", "proptest", Some("dev")),
            ("planner", "cc", Some("build")),
            ("proptest", "rand", None),
            ("cc", "getrandom", None),
        ];
        assert!(violations(&edges).is_empty());
        assert!(violations(&[("controller", "tokio", None)]).is_empty());
    }

    #[test]
    fn a_crate_that_the_table_does_not_grant_is_found() {
        let found = violations(&[("planner", "dialects", None)]);
        assert!(
            found[0].contains("`planner` may not use `dialects`"),
            "{found:?}"
        );
        assert!(violations(&[("dialects", "planner", None)]).is_empty());
    }

    #[test]
    fn the_controller_may_use_minicluster_in_its_tests_only() {
        assert!(violations(&[("controller", "minicluster", Some("dev"))]).is_empty());
        assert_eq!(violations(&[("controller", "minicluster", None)]).len(), 1);
        assert!(violations(&[("planner", "planner", Some("dev"))]).is_empty());
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let found = violations(&[("stray", "serde", None)]);
        assert!(
            found[0].starts_with("crates/stray/Cargo.toml:1: the crate has no row"),
            "{found:?}"
        );
    }
}
