//! What `deploy/` installs around the operator: who may connect to it, and what pods of its namespace may
//! do.

use anyhow::{Context, Result, ensure};
use e2e::api::collection;
use e2e::api_fixture::{SOON, name};
use e2e::operator::shipped;
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::{new_fixture, prepared};

fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Result<&'o Value> {
    let found = objects.iter().find(|object| object["kind"] == kind);
    found.with_context(|| format!("deploy/ has no {kind}"))
}

#[test]
fn s09_only_metrics_are_open_and_only_to_namespaces_that_are_labelled() -> Result<()> {
    let fixture = new_fixture("policy")?;
    let objects = shipped(&fixture.cluster)?;
    let deployment = of_kind(&objects, "Deployment")?;
    let mut policy = of_kind(&objects, "NetworkPolicy")?.clone();
    policy["metadata"] = json!({"name": name(&policy)});
    let stored = fixture.create("networkpolicies", &policy)?;
    let spec = &stored["spec"];
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let selected = spec["podSelector"]["matchLabels"].as_object();
    let selected = selected.context("it selects no pods")?;
    for (key, value) in selected {
        ensure!(
            labels[key] == *value,
            "the operator's pod has no {key}={value}"
        );
    }
    let rules = spec["ingress"].as_array().context("it has no rules")?;
    ensure!(rules.len() == 1, "{spec}");
    let from = json!([{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}]);
    ensure!(rules[0]["from"] == from, "{spec}");
    let ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"].as_array();
    let port = &rules[0]["ports"][0]["port"];
    let named = ports.is_some_and(|ports| ports.iter().any(|known| known["name"] == *port));
    ensure!(named && port == "metrics", "{spec}");
    Ok(())
}

#[test]
fn s17_the_operators_namespace_is_restricted_and_its_pod_complies() -> Result<()> {
    let prepared = prepared()?;
    let objects = shipped(&prepared.cluster)?;
    let shipped = of_kind(&objects, "Namespace")?;
    let here = format!("restricted-{}", std::process::id());
    let namespace = json!({"metadata": {
        "name": here,
        "labels": shipped["metadata"]["labels"],
    }});
    prepared.api.create("/api/v1/namespaces", &namespace)?;
    let account = format!("{}/default", collection(&here, "serviceaccounts"));
    wait_for("the default service account", SOON, || {
        prepared.api.get(&account)
    })?;
    let pods = format!("{}?dryRun=All", collection(&here, "pods"));
    let template = &of_kind(&objects, "Deployment")?["spec"]["template"];
    let mut pod = json!({"metadata": {"name": "operator"}, "spec": template["spec"]});
    pod["spec"]["serviceAccountName"] = "default".into();
    prepared.api.create(&pods, &pod)?;

    pod["spec"]["hostNetwork"] = true.into();
    let answer = prepared.api.send("POST", &pods, Some(&pod))?;
    ensure!(
        answer.code == 403 && answer.message().contains("restricted"),
        "{}: {}",
        answer.code,
        answer.message()
    );
    prepared.api.delete(&format!("/api/v1/namespaces/{here}"))?;
    Ok(())
}
