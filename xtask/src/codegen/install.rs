//! The one-file install: the manifests of deploy/base and the CRDs, one after another, so that one
//! `kubectl apply -f` is enough. Decides their order, and refuses roles that leave out a dialect.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use dialects::{RESOURCES, Resource};

/// Where it is written, in deploy/.
pub(crate) const FILE: &str = "muster.yaml";

/// What comes after namespace and CRDs; what others refer to comes first.
const REST: [&str; 8] = [
    "base/service-account.yaml",
    ROLES,
    "base/cluster-role-bindings.yaml",
    "base/lease-role.yaml",
    USER_ROLES,
    "base/network-policy.yaml",
    "base/disruption-budget.yaml",
    "base/deployment.yaml",
];
/// What the operator may do, and what people may.
const ROLES: &str = "base/cluster-roles.yaml";
const USER_ROLES: &str = "base/user-roles.yaml";
/// What it may do besides, where an overlay says so.
const MORE_ROLES: &str = "overlays/bdap/rights.yaml";

/// All documents.
pub(crate) fn text(deploy: &Path, crds: &[String]) -> Result<String> {
    let read = |file: &str| {
        let path = deploy.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut text = String::from(
        "# Installs muster: put the addresses of your images in place of `muster-operator:0.1.0` and\n# `muster-agent:0.1.0`, as README.md says, then kubectl apply -f muster.yaml\n# Written by `cargo xtask codegen` from deploy/base and deploy/crds; do not edit.\n",
    );
    let namespace = read("base/namespace.yaml")?;
    let rest = REST
        .iter()
        .map(|file| read(file))
        .collect::<Result<Vec<_>>>()?;
    let roles = read(ROLES)? + &read(MORE_ROLES)?;
    for (file, rules) in [(ROLES, roles), (USER_ROLES, read(USER_ROLES)?)] {
        for Resource { group, .. } in RESOURCES {
            ensure!(
                rules.contains(group),
                "deploy/{file} has no rule for {group}"
            );
        }
    }
    for document in [namespace].iter().chain(crds).chain(&rest) {
        text.push_str("---\n");
        text.push_str(document);
    }
    let version = env!("CARGO_PKG_VERSION");
    for image in ["image: muster-operator", "--agent-image=muster-agent"] {
        let image = format!("{image}:{version}\n");
        ensure!(
            text.contains(&image),
            "deploy/base/deployment.yaml must contain `{}`",
            image.trim()
        );
    }
    let chart = read("chart/muster/Chart.yaml")? + &read("chart/muster/values.yaml")?;
    for line in [
        format!("version: {version}\n"),
        format!("appVersion: {version}\n"),
        format!("  operator: muster-operator:{version}\n"),
        format!("  agent: muster-agent:{version}\n"),
    ] {
        ensure!(
            chart.contains(&line),
            "deploy/chart/muster must contain `{}`",
            line.trim()
        );
    }
    Ok(text)
}
