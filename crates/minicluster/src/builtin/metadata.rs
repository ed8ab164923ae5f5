//! Metadata that all kinds share. Decides which names, labels and owners are refused.

use serde_json::{Map, Value, json};

use crate::names;
use crate::resource::Resource;
use crate::status::Cause;
use crate::value::{items, text};

/// What is wrong with the metadata of an object.
pub(crate) fn validate(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let metadata = &object["metadata"];
    let name = text(&metadata["name"]);
    if name.is_empty() {
        let why = "name or generateName is required";
        causes.push(Cause::required("metadata.name", why));
    } else if let Some(why) = wrong_name(resource, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), &why));
    }
    labels(metadata, "metadata", causes);
    annotations(metadata, "metadata", causes);
    owners(metadata, causes);
    for (index, finalizer) in items(&metadata["finalizers"]).iter().enumerate() {
        let known = ["orphan", "foregroundDeletion", "kubernetes"];
        let name = text(finalizer);
        let path = "metadata.finalizers";
        if let Some(why) = names::qualified(name) {
            causes.push(Cause::invalid(path, finalizer, &why));
        } else if !name.contains('/') && !known.contains(&name) && resource.custom.is_none() {
            let path = format!("{path}[{index}]");
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(&path, finalizer, why));
        }
    }
}

fn wrong_name(resource: &Resource, name: &str) -> Option<String> {
    match resource.kind.as_str() {
        _ if resource.custom.is_some() => names::subdomain(name),
        "Namespace" | "Service" => names::dns_label(name),
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => names::path_segment(name),
        _ => names::subdomain(name),
    }
}

/// Labels, also of a template.
pub(crate) fn labels(metadata: &Value, path: &str, causes: &mut Vec<Cause>) {
    let path = format!("{path}.labels");
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        for why in names::wrong_key(key) {
            causes.push(Cause::invalid(&path, &json!(key), &why));
        }
        if let Some(why) = names::label_value(text(value)) {
            causes.push(Cause::invalid(&path, value, &why));
        }
    }
}

/// Annotations, also of a template.
pub(crate) fn annotations(metadata: &Value, path: &str, causes: &mut Vec<Cause>) {
    let path = format!("{path}.annotations");
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        for why in names::wrong_key(&key.to_lowercase()) {
            causes.push(Cause::invalid(&path, &json!(key), &why));
        }
        size += key.len() + text(value).len();
    }
    if size > 256 * 1024 {
        causes.push(Cause::too_long(&path, 256 * 1024));
    }
}

fn owners(metadata: &Value, causes: &mut Vec<Cause>) {
    let path = "metadata.ownerReferences";
    let mut controllers: Vec<&Value> = Vec::new();
    for (index, owner) in items(&metadata["ownerReferences"]).iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(&owner[field]).is_empty() {
                let path = format!("{path}[{index}].{field}");
                causes.push(Cause::required(&path, "must not be empty"));
            }
        }
        if owner["controller"] == true {
            controllers.push(owner);
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let shown = Value::Array(items(&metadata["ownerReferences"]).to_vec());
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for \
             {} and {}",
            shown_owner(first),
            shown_owner(second)
        );
        causes.push(Cause::invalid(path, &shown, &why));
    }
}

fn shown_owner(owner: &Value) -> String {
    format!("{}/{}", text(&owner["kind"]), text(&owner["name"]))
}

/// What is wrong with a change of metadata.
pub(crate) fn validate_update(object: &Value, before: &Value, causes: &mut Vec<Cause>) {
    let (new, old) = (&object["metadata"], &before["metadata"]);
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        if new[field] != old[field] {
            let path = format!("metadata.{field}");
            causes.push(Cause::invalid(&path, &new[field], "field is immutable"));
        }
    }
    if !old["deletionTimestamp"].is_null() {
        let had = items(&old["finalizers"]);
        let added: Vec<&Value> = items(&new["finalizers"])
            .iter()
            .filter(|one| !had.contains(one))
            .collect();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|one| one.to_string()).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                shown.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
}

/// A map without entries is no map.
pub(crate) fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(Map::is_empty)
}
