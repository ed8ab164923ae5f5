//! CustomResourceDefinitions: what is filled in and refused, and the status that says that the
//! kind is served.

use serde_json::{Value, json};

use super::defaults;
use crate::status::Cause;
use crate::value::{fill, items, text};

/// Fills in what a user left out.
pub(crate) fn default(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "conversion", json!({"strategy": "None"}));
    fill(&mut spec["conversion"], "strategy", "None");
    let names = &mut spec["names"];
    if names.is_object() {
        let kind = text(&names["kind"]).to_owned();
        fill(names, "singular", kind.to_lowercase());
        fill(names, "listKind", format!("{kind}List"));
    }
    for version in defaults::list_mut(spec, "versions") {
        for column in defaults::list_mut(version, "additionalPrinterColumns") {
            if column["priority"] == 0
                && let Some(fields) = column.as_object_mut()
            {
                fields.remove("priority");
            }
        }
    }
}

/// The status of a definition that is served.
pub(crate) fn established(object: &mut Value, now: &str) {
    let names = object["spec"]["names"].clone();
    let stored: Vec<Value> = items(&object["spec"]["versions"])
        .iter()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let mut versions = items(&object["status"]["storedVersions"]).to_vec();
    for name in stored {
        if !versions.contains(&name) {
            versions.push(name);
        }
    }
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        })
    };
    let conditions = if items(&object["status"]["conditions"]).is_empty() {
        json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ])
    } else {
        object["status"]["conditions"].clone()
    };
    object["status"] = json!({
        "acceptedNames": names,
        "conditions": conditions,
        "storedVersions": versions,
    });
}

/// What is wrong with a definition.
pub(crate) fn validate(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let names = &spec["names"];
    let expected = format!("{}.{}", text(&names["plural"]), text(&spec["group"]));
    if text(&object["metadata"]["name"]) != expected {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid(
            "metadata.name",
            &object["metadata"]["name"],
            why,
        ));
    }
    for field in ["plural", "kind"] {
        if text(&names[field]).is_empty() {
            causes.push(Cause::required(&format!("spec.names.{field}"), ""));
        }
    }
    if !["Cluster", "Namespaced"].contains(&text(&spec["scope"])) {
        let supported = [json!("Cluster"), json!("Namespaced")];
        causes.push(Cause::unsupported(
            "spec.scope",
            &json!(text(&spec["scope"])),
            &supported,
        ));
    }
    let versions = items(&spec["versions"]);
    let stored = versions.iter().filter(|version| version["storage"] == true);
    if stored.count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], why));
    }
    for (index, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            causes.push(Cause::required(&path, "schemas are required"));
        }
    }
    if let Some(before) = before {
        for (field, path) in [("group", "spec.group"), ("scope", "spec.scope")] {
            if before["spec"][field] != spec[field] {
                causes.push(Cause::invalid(path, &spec[field], "field is immutable"));
            }
        }
    }
}
