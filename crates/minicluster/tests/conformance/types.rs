//! The types of built-in kinds are those that the real API server publishes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::arms::Arm as _;

const OURS: &str = include_str!("../../src/builtin/types.json");
const DOCUMENTS: [&str; 9] = [
    "api/v1",
    "apis/batch/v1",
    "apis/apps/v1",
    "apis/events.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
];

/// A schema without what is for people, or our own.
fn facts(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut out = Map::new();
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("description", Value::String(_))
                    | ("x-omit" | "x-always" | "x-null" | "x-kubernetes-group-version-kind", _) => {
                    }
                    ("allOf", Value::Array(items)) if items.len() == 1 => {
                        let target = items[0]["$ref"].as_str().unwrap_or_default();
                        out.insert("$ref".to_owned(), last(target).into());
                    }
                    ("$ref", Value::String(target)) => {
                        out.insert("$ref".to_owned(), last(target).into());
                    }
                    _ => {
                        out.insert(name.clone(), facts(value));
                    }
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(facts).collect(),
        other => other.clone(),
    }
}

fn last(target: &str) -> &str {
    target.rsplit('/').next().unwrap_or(target)
}

#[tokio::test]
async fn built_in_types_are_the_published_ones() {
    let mut real = crate::real().await;
    let ours: Map<String, Value> = serde_json::from_str(OURS).expect("types.json is JSON");
    let mut theirs = Map::new();
    for document in DOCUMENTS {
        let request = http::Request::get(format!("/openapi/v3/{document}"));
        let request = request.body(Vec::new()).expect("the parts are valid");
        let (code, text, _) = real.ask(request).await;
        assert_eq!(code, 200, "{document}");
        let mut body: Value = serde_json::from_slice(&text).expect("a document is JSON");
        if let Value::Object(schemas) = body["components"]["schemas"].take() {
            theirs.extend(schemas);
        }
    }
    let other: BTreeSet<&String> = ours
        .iter()
        .filter(|(name, schema)| theirs.get(*name).map(facts) != Some(facts(schema)))
        .map(|(name, _)| name)
        .collect();
    assert!(
        other.is_empty(),
        "these types are not as published: {other:?}"
    );
    println!("{} types as published", ours.len());
}
