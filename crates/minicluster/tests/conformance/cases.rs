//! All cases, and what both arms need before the first. The names say what is promised.

use std::time::Duration;

use serde_json::{Value, json};

use crate::arms::Arm;
use crate::step::Case;

mod applies;
mod custom;
mod deletes;
mod jobs;
mod lists;
mod objects;
mod patches;
mod pods;
mod watches;

const SHIPPED: &str = include_str!("../../../../deploy/crds/kubeflow.org_mpijobs.yaml");

/// Every case.
pub(crate) fn all() -> Vec<Case> {
    let groups = [
        objects::cases(),
        patches::cases(),
        applies::cases(),
        deletes::cases(),
        lists::cases(),
        watches::cases(),
        pods::cases(),
        jobs::cases(),
        custom::cases(),
    ];
    groups.into_iter().flatten().collect()
}

/// The path of namespaced objects of the core group.
pub(crate) fn core(plural: &str, name: &str) -> String {
    path("api/v1", plural, name)
}

/// The path of namespaced objects.
pub(crate) fn path(root: &str, plural: &str, name: &str) -> String {
    let name = if name.is_empty() || name.starts_with('?') {
        name.to_owned()
    } else {
        format!("/{name}")
    };
    format!("/{root}/namespaces/${{ns}}/{plural}{name}")
}

/// A ConfigMap's path.
pub(crate) fn cm(name: &str) -> String {
    core("configmaps", name)
}

/// A ConfigMap.
pub(crate) fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A Pod that nobody will run.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none:1"}],
        },
    })
}

/// A definition for the cases' own kind.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.conf.example.com"},
        "spec": {
            "group": "conf.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "x-kubernetes-validations": [
                                {"rule": "self.size <= 50 || self.big", "message": "only big ones may be larger than 50"},
                                {"rule": "self.color == oldSelf.color", "message": "color is immutable"},
                            ],
                            "properties": properties(),
                        },
                        "status": {
                            "type": "object",
                            "properties": {"phase": {"type": "string"}, "count": {"type": "integer"}},
                        },
                    },
                }},
            }],
        },
    })
}

/// The fields of the cases' own kind.
fn properties() -> Value {
    json!({
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100},
        "big": {"type": "boolean", "default": false},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 8},
        "note": {"type": "string", "nullable": true},
        "port": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "plain": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}, "kind": {"type": "string"}},
            },
        },
        "nested": {"type": "object", "default": {}, "properties": {"depth": {"type": "integer", "default": 3}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    })
}

/// Defines the kinds that cases use, on one arm.
pub(crate) async fn prepare(arm: &mut dyn Arm) {
    let root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let ask = |method: &'static str, path: String, content: &'static str, body: String| {
        http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content)
            .body(body.into_bytes())
            .expect("the parts are valid")
    };
    let own = "widgets.conf.example.com";
    let shipped = "mpijobs.kubeflow.org";
    for (name, content, body) in [
        (own, "application/json", definition().to_string()),
        (shipped, "application/yaml", SHIPPED.to_owned()),
    ] {
        arm.ask(ask(
            "DELETE",
            format!("{root}/{name}"),
            "application/json",
            String::new(),
        ))
        .await;
        for _ in 0..100 {
            let reply = arm
                .ask(ask("POST", root.to_owned(), content, body.clone()))
                .await;
            if reply.0 == 201 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    for path in [
        "/apis/conf.example.com/v1/widgets",
        "/apis/kubeflow.org/v2beta1/mpijobs",
    ] {
        for _ in 0..200 {
            if arm
                .ask(ask(
                    "GET",
                    path.to_owned(),
                    "application/json",
                    String::new(),
                ))
                .await
                .0
                == 200
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
