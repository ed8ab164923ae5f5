//! Whether the objects of an installation fit together, whoever put them together: `deploy/`, an overlay or the chart.
//! Decides what every installation must keep, such as that the operator may read no Secret. Must not know which one it
//! looks at.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::api_fixture::name;

/// What would show the contents of a Secret, or replace them.
const OF_SECRETS: [&str; 5] = ["get", "list", "watch", "update", "patch"];

/// Fails if one object names another that is not there, or if the operator may do what it never may. `enters_pods`
/// says whether it may open sessions in pods, as bdap's jobs need.
pub fn assert_sound(objects: &[Value], enters_pods: bool) -> Result<()> {
    let deployment = only(objects, "Deployment")?;
    let namespace = &deployment["metadata"]["namespace"];
    let template = &deployment["spec"]["template"];
    let lock = format!("--lock-namespace={}", namespace.as_str().unwrap_or("none"));
    let args = list(&template["spec"]["containers"][0]["args"]);
    ensure!(
        args.iter().any(|arg| **arg == lock.as_str()),
        "no {lock} in {args:?}"
    );
    let account = only(objects, "ServiceAccount")?;
    ensure!(
        account["metadata"]["namespace"] == *namespace
            && account["metadata"]["name"] == template["spec"]["serviceAccountName"],
        "the operator has no account: {account}"
    );
    for (kind, field) in [
        ("Deployment", "selector"),
        ("PodDisruptionBudget", "selector"),
        ("NetworkPolicy", "podSelector"),
    ] {
        let selector = only(objects, kind)?;
        ensure!(
            selector["metadata"]["namespace"] == *namespace,
            "{kind} is elsewhere"
        );
        let selector = &selector["spec"][field];
        let labels = selector.get("matchLabels").unwrap_or(selector);
        let labels = labels.as_object().context("it selects nothing")?;
        ensure!(!labels.is_empty(), "{kind} selects all pods");
        for (key, value) in labels {
            let found = &template["metadata"]["labels"][key];
            ensure!(found == value, "{kind} selects {key}={value}, not {found}");
        }
    }
    let mut bound = 0;
    for binding in objects {
        let kind = text(&binding["kind"]);
        let Some(role) = kind.strip_suffix("Binding") else {
            continue;
        };
        assert_bound(objects, binding, role, account, enters_pods)
            .with_context(|| format!("{kind} {}", name(binding)))?;
        bound += 1;
    }
    ensure!(bound > 1, "the operator has no rights");
    Ok(())
}

/// The binding gives the operator, and nobody else, a role that is there.
fn assert_bound(
    objects: &[Value],
    binding: &Value,
    kind: &str,
    account: &Value,
    enters_pods: bool,
) -> Result<()> {
    for subject in list(&binding["subjects"]) {
        for field in ["name", "namespace"] {
            let (found, wanted) = (&subject[field], &account["metadata"][field]);
            ensure!(found == wanted, "it is for {found}, not {wanted}");
        }
    }
    let place = &binding["metadata"]["namespace"];
    let role = objects.iter().find(|object| {
        object["kind"] == kind
            && object["metadata"]["namespace"] == *place
            && object["metadata"]["name"] == binding["roleRef"]["name"]
    });
    let role = role.with_context(|| format!("there is no {}", binding["roleRef"]))?;
    for rule in list(&role["rules"]) {
        let of = |field: &str| list(&rule[field]);
        let verbs = of("verbs");
        for field in ["apiGroups", "resources", "verbs"] {
            ensure!(!of(field).is_empty(), "{field} is empty: {rule}");
            let wildcard = of(field).iter().any(|word| text(word).contains('*'));
            ensure!(!wildcard, "{field} has a wildcard: {rule}");
        }
        let reads = verbs.iter().any(|verb| OF_SECRETS.contains(&text(verb)));
        for resource in of("resources") {
            let resource = text(resource);
            ensure!(resource != "secrets" || !reads, "it sees Secrets: {rule}");
            ensure!(
                enters_pods || resource != "pods/exec",
                "it enters pods: {rule}"
            );
        }
    }
    Ok(())
}

fn only<'o>(objects: &'o [Value], kind: &str) -> Result<&'o Value> {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let first = found
        .next()
        .with_context(|| format!("there is no {kind}"))?;
    ensure!(found.next().is_none(), "there are two of {kind}");
    Ok(first)
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().into_iter().flatten().collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
