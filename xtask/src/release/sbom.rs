//! The bill of materials of a program, in CycloneDX: every crate that is linked into it, with version, licence and
//! checksum. Decides what counts as linked: what cargo resolves for the program on the platforms that it ships for,
//! without what only builds or tests it. The same sources give the same bytes: it has no date and no serial number.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use clap::ValueEnum as _;
use serde_json::{Value, json};

use crate::command::{self, cargo};
use crate::platform::Platform;
use crate::root;

/// The bill of one of our packages, whose program has this name.
pub(super) fn of(package: &str, program: &str) -> Result<String> {
    let mut metadata = cargo("metadata");
    metadata.args(["--format-version=1", "--locked"]);
    for platform in Platform::value_variants() {
        metadata.arg(format!("--filter-platform={}", platform.target()));
    }
    let metadata = command::output(&mut metadata)?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is no JSON")?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let bill = bill(&metadata, &checksums(&lock), package, program)?;
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn bill(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    package: &str,
    program: &str,
) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let is_ours = |found: &&&Value| found["name"] == package && found["source"].is_null();
    let own = packages.values().find(is_ours);
    let own = own.with_context(|| format!("there is no package {package}"))?;
    let own = own["id"].as_str().context("a package without an id")?;

    let (mut linked, mut next) = (BTreeSet::from([own]), vec![own]);
    while let Some(id) = next.pop() {
        for used in linked_by(nodes.get(id).copied()) {
            if linked.insert(used) {
                next.push(used);
            }
        }
    }
    let reference = |id: &str| purl(packages[id]);
    let mut components: Vec<Value> = linked
        .iter()
        .filter(|id| **id != own)
        .map(|id| component(packages[id], checksums))
        .collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies: Vec<Value> = linked
        .iter()
        .map(|id| {
            let used: BTreeSet<_> = linked_by(nodes.get(id).copied()).map(reference).collect();
            json!({"ref": reference(id), "dependsOn": used})
        })
        .collect();
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    let mut about = component(packages[own], checksums);
    about["type"] = "application".into();
    about["name"] = program.into();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Packages that a package links, without those of its build script and its tests.
fn linked_by(node: Option<&Value>) -> impl Iterator<Item = &str> {
    let used = node.into_iter().flat_map(|node| list(&node["deps"]));
    let is_linked = |used: &&Value| list(&used["dep_kinds"]).any(|kind| kind["kind"].is_null());
    used.filter(is_linked)
        .filter_map(|used| used["pkg"].as_str())
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": text("name"),
        "version": text("version"),
        "purl": purl(package),
    });
    if let Some(licence) = package["license"].as_str() {
        // Old packages write `/` for `OR`.
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(sha256) = checksums.get(&(text("name"), text("version"))) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
    }
    component
}

fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

/// Checksums of Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |package: &str, key: &str| {
        let begin = format!("{key} = \"");
        let line = package.lines().find_map(|line| line.strip_prefix(&begin))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let name = (field(package, "name")?, field(package, "version")?);
            Some((name, field(package, "checksum")?))
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_has_what_is_linked_and_not_what_builds_or_tests_it() -> Result<()> {
        let bill: Value = serde_json::from_str(&of("agent", "muster-agent")?)?;
        let names: BTreeSet<&str> = list(&bill["components"])
            .filter_map(|component| component["name"].as_str())
            .collect();
        assert!(
            names.contains("rustls") && names.contains("contract"),
            "{names:?}"
        );
        assert!(
            !names.contains("agent") && !names.contains("cc"),
            "{names:?}"
        );
        for component in list(&bill["components"]) {
            let ours = component["version"] == env!("CARGO_PKG_VERSION");
            assert!(
                ours || component["hashes"][0]["content"].is_string(),
                "{component}"
            );
            assert!(component["licenses"].is_array(), "{component}");
        }
        assert_eq!(bill["metadata"]["component"]["name"], "muster-agent");
        Ok(())
    }
}
