//! docs/reference/rbac.md: all roles of `deploy/`, one table each. Decides how a role looks; what it is for, and why it has
//! a right, is written beside the role.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::root;

pub(crate) const FILE: &str = "docs/reference/rbac.md";

const HEAD: &str = "\
# Rights

<!-- Written by `cargo xtask codegen` from the roles in deploy/; do not edit. -->

The tests run the operator under these roles, and compare them with the audit log of the API server: it uses each right, and asks for
nothing else ([rights.rs](../../e2e/tests/api/rights.rs)). The comparison leaves out the roles for gangs and for bdap's jobs. No role
has a wildcard. The operator cannot read Secrets. [deploy/rights.txt](../../deploy/rights.txt) is what `kubectl auth can-i --list` prints for its account in a namespace of
jobs. [Security](../security.md) says what somebody could do with its token.
";

/// Where roles are, and who has them.
const FILES: [(&str, &str); 4] = [
    (
        "deploy/base/cluster-roles.yaml",
        "The operator, in all namespaces",
    ),
    (
        "deploy/base/lease-role.yaml",
        "The operator, in its own namespace",
    ),
    (
        "deploy/overlays/bdap/rights.yaml",
        "The operator, with `deploy/overlays/bdap` or the chart's `crds.bdap`",
    ),
    ("deploy/base/user-roles.yaml", "Users"),
];
const CLOSE: &str = "
## One namespace only

With `deploy/overlays/one-namespace` or the chart's `watchNamespace`, the first roles are Roles of that namespace, and the operator
has no ClusterRole. It then cannot read PriorityClasses, and cannot ask the API server who a reader of the metrics is, so it serves
them without TLS.
";

/// The page.
pub(crate) fn page() -> Result<String> {
    let mut page = HEAD.to_owned();
    for (file, title) in FILES {
        let text =
            fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
        write!(page, "\n## {title}\n\nFrom [{file}](../../{file}).\n")?;
        for document in text.split("\n---\n") {
            page += &role(document).with_context(|| format!("cannot read a role of {file}"))?;
        }
    }
    Ok(page + CLOSE)
}

/// A document that is a role; nothing for others.
fn role(document: &str) -> Result<String> {
    let object: Value = serde_saphyr::from_str(document)?;
    if !["Role", "ClusterRole"].contains(&object["kind"].as_str().unwrap_or_default()) {
        return Ok(String::new());
    }
    let name = object["metadata"]["name"]
        .as_str()
        .context("a role without a name")?;
    let mut section = format!("\n### `{name}`\n");
    let about: Vec<_> = document
        .lines()
        .map_while(|line| line.strip_prefix('#'))
        .collect();
    // What is indented further is a command, which stands on its page.
    let about: Vec<_> = about
        .iter()
        .filter(|line| !line.starts_with("   "))
        .map(|line| line.trim())
        .collect();
    if !about.is_empty() {
        let about = about.join(" ");
        // A colon led to that command.
        let about = about
            .strip_suffix(':')
            .map_or(about.clone(), |head| format!("{head}."));
        writeln!(section, "\n{about}")?;
    }
    let labels = object["metadata"]["labels"].as_object();
    let into = labels
        .into_iter()
        .flatten()
        .filter_map(|(label, _)| label.split_once("/aggregate-to-"));
    let into: Vec<_> = into.map(|(_, role)| format!("`{role}`")).collect();
    if !into.is_empty() {
        write!(
            section,
            "\nKubernetes adds it to the roles {}.\n",
            into.join(", ")
        )?;
    }
    let rules = object["rules"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if rules.is_empty() {
        section += "\nIt has the rights of the roles that are added to it.\n";
        return Ok(section);
    }
    let reasons = reasons(document);
    ensure!(
        reasons.len() == rules.len(),
        "{name}: a rule does not begin with `  - `"
    );
    section += "\n| group | resources | verbs | why |\n|---|---|---|---|\n";
    for (rule, why) in rules.iter().zip(reasons) {
        section += &row(rule, &why);
    }
    Ok(section)
}

/// The comment above each rule.
fn reasons(document: &str) -> Vec<String> {
    let (mut reasons, mut comment) = (Vec::new(), Vec::new());
    let rules = document.lines().skip_while(|line| *line != "rules:");
    for line in rules {
        if let Some(words) = line.strip_prefix("  # ") {
            comment.push(words);
        } else if line.starts_with("  - ") {
            reasons.push(comment.join(" "));
            comment.clear();
        }
    }
    reasons
}

fn row(rule: &Value, why: &str) -> String {
    let list = |field: &str| -> Vec<&str> {
        let words = rule[field].as_array().into_iter().flatten();
        words.filter_map(Value::as_str).collect()
    };
    let code = |words: Vec<&str>| {
        let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    let mut groups = list("apiGroups");
    groups.retain(|group| !group.is_empty());
    let names = match code(list("resourceNames")) {
        names if names.is_empty() => names,
        names => format!(" named {names}"),
    };
    let resources = [list("resources"), list("nonResourceURLs")].concat();
    let (groups, resources, verbs) = (code(groups), code(resources), list("verbs").join(", "));
    format!("| {groups} | {resources}{names} | {verbs} | {why} |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_of_deploy_is_on_the_page_with_its_reasons() -> Result<()> {
        let page = page()?;
        let install = fs::read_to_string(root().join("deploy/muster.yaml"))?;
        let mut roles = 0;
        for document in install.split("\n---\n") {
            // Definitions are large, and no roles.
            if !document.contains("\nkind: ClusterRole\n") && !document.contains("\nkind: Role\n") {
                continue;
            }
            let object: Value = serde_saphyr::from_str(document)?;
            let name = object["metadata"]["name"].as_str().context("no name")?;
            assert!(page.contains(&format!("\n### `{name}`\n")), "{name}");
            roles += 1;
        }
        assert!(roles >= 11, "{roles} roles in deploy/muster.yaml");
        let secrets = "|  | `secrets` | create, delete | No get, list or watch: the operator never sees what is in a Secret. |\n";
        assert!(page.contains(secrets), "{page}");
        let lease = "| `coordination.k8s.io` | `leases` named `mpi-operator` | get, update |  |\n";
        assert!(page.contains(lease), "{page}");
        assert!(!page.contains("| * |"), "{page}");
        Ok(())
    }
}
