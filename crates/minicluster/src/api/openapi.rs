//! OpenAPI v3 documents, as far as kubectl reads them: types for `explain` and for computing
//! patches, and the parameters by which it sees what the server can do. Decides no behaviour.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::builtin::types::TYPES;
use crate::kinds::Kinds;
use crate::resource::Resource;

const PREFIX: &str = "#/components/schemas/";

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Which documents there are.
pub(crate) fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for resource in kinds.all() {
        let path = path_of(&resource.group, &resource.version);
        // The hash only has to change when the document does.
        let text = document(kinds, &resource.group, &resource.version)
            .unwrap_or_default()
            .to_string();
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let url = format!("/openapi/v3/{path}?hash={hash:016X}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

pub(crate) fn document(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<&Resource> = kinds
        .all()
        .map(|resource| &**resource)
        .filter(|one| one.group == group && one.version == version)
        .collect();
    if resources.is_empty() {
        return None;
    }
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in resources {
        let kind = json!({
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        });
        let name = schema_name(resource);
        let mut schema = match &resource.custom {
            Some(custom) => {
                let mut schema = custom.document.clone();
                let metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
                add_type(metadata, &mut schemas);
                schema["properties"]["metadata"] =
                    json!({"allOf": [{"$ref": format!("{PREFIX}{metadata}")}]});
                schema
            }
            None => {
                add_type(&name, &mut schemas);
                schemas.get(&name).cloned().unwrap_or_default()
            }
        };
        schema["x-kubernetes-group-version-kind"] = json!([kind]);
        schemas.insert(name.clone(), schema);
        add_paths(resource, &name, &kind, &mut paths);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn schema_name(resource: &Resource) -> String {
    if resource.custom.is_none() {
        return resource.type_name.clone();
    }
    let group: Vec<&str> = resource.group.split('.').rev().collect();
    format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
}

/// A named type and those that it uses.
fn add_type(name: &str, schemas: &mut Map<String, Value>) {
    let mut wanted = BTreeSet::from([name.to_owned()]);
    while let Some(name) = wanted.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        let Some(document) = TYPES.get(&name) else {
            continue;
        };
        let schema = published(document, &mut wanted);
        schemas.insert(name, schema);
    }
}

/// A type as it is published: references in full, and none of our own marks.
fn published(document: &Value, wanted: &mut BTreeSet<String>) -> Value {
    match document {
        Value::Object(fields) => {
            let mut out = Map::new();
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("x-omit" | "x-always" | "x-null", _) => {}
                    ("$ref", Value::String(target)) => {
                        wanted.insert(target.clone());
                        out.insert(
                            "allOf".to_owned(),
                            json!([{"$ref": format!("{PREFIX}{target}")}]),
                        );
                    }
                    _ => {
                        out.insert(name.clone(), published(value, wanted));
                    }
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(|item| published(item, wanted)).collect(),
        other => other.clone(),
    }
}

fn add_paths(resource: &Resource, name: &str, kind: &Value, paths: &mut Map<String, Value>) {
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    let content = json!({"application/json": {"schema": {"$ref": format!("{PREFIX}{name}")}}});
    let operation = |action: &str| {
        json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        })
    };
    let root = path_of(&resource.group, &resource.version);
    let place = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let list = format!("/{root}{place}/{}", resource.plural);
    paths.insert(
        format!("{list}/{{name}}"),
        json!({
            "get": operation("get"),
            "put": operation("put"),
            "patch": operation("patch"),
            "delete": operation("delete"),
        }),
    );
    paths.insert(
        list,
        json!({"get": operation("list"), "post": operation("post")}),
    );
}
