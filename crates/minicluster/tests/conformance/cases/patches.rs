//! Merge, JSON and strategic merge patches.

use serde_json::{Value, json};

use super::{cm, core, map, pod};
use crate::step::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let start = |name: &'static str| case(name).post(cm(""), map("a", json!({"k": "v", "l": "w"})));
    let mut all = vec![
        start("a merge patch changes and removes")
            .merge(cm("a"), json!({"data": {"k": "x", "l": null, "m": "y"}})),
        start("a merge patch that changes nothing").merge(cm("a"), json!({"data": {"k": "v"}})),
        start("an empty merge patch").merge(cm("a"), json!({})),
        start("a merge patch with a stale revision")
            .merge(cm("a"), json!({"data": {"k": "x"}}))
            .merge(
                cm("a"),
                json!({"metadata": {"resourceVersion": "${0.rv}"}, "data": {"k": "y"}}),
            ),
        start("a merge patch with the right revision").merge(
            cm("a"),
            json!({"metadata": {"resourceVersion": "${0.rv}"}, "data": {"k": "y"}}),
        ),
        start("a merge patch with the right uid").merge(
            cm("a"),
            json!({"metadata": {"uid": "${0.uid}"}, "data": {"k": "y"}}),
        ),
        start("a merge patch with another uid").merge(
            cm("a"),
            json!({"metadata": {"uid": "12345678-1234-4123-8123-123456789012"}}),
        ),
        start("a merge patch of the name").merge(cm("a"), json!({"metadata": {"name": "b"}})),
        start("a merge patch of the namespace")
            .merge(cm("a"), json!({"metadata": {"namespace": "other"}})),
        start("a merge patch of the kind").merge(cm("a"), json!({"kind": "Secret"})),
        case("a merge patch of nothing").merge(cm("a"), json!({"data": {}})),
        start("a merge patch that is a list").merge(cm("a"), json!([1])),
        start("a merge patch that is no JSON").raw(
            "PATCH",
            cm("a"),
            "application/merge-patch+json",
            "{",
        ),
        start("a patch without a media type").raw("PATCH", cm("a"), "application/json", "{}"),
        start("a merge patch with a wrong shape")
            .merge(cm("a"), json!({"data": {"k": {"deep": 1}}})),
        start("a merge patch with an unknown field, strict")
            .merge(cm("a?fieldValidation=Strict"), json!({"extra": 1})),
        start("a merge patch with an unknown field").merge(cm("a"), json!({"extra": 1})),
        start("a dry merge patch")
            .merge(cm("a?dryRun=All"), json!({"data": {"k": "x"}}))
            .get(cm("a")),
        start("a merge patch by another manager").merge(
            cm("a?fieldManager=other"),
            json!({"data": {"k": "x"}, "metadata": {"labels": {"a": "b"}}}),
        ),
        start("a merge patch adds labels and annotations").merge(
            cm("a"),
            json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}),
        ),
        start("a merge patch of a bad label")
            .merge(cm("a"), json!({"metadata": {"labels": {"a": "b c"}}})),
    ];
    all.extend(json_patches(start));
    all.extend(strategic());
    all
}

fn json_patches(start: impl Fn(&'static str) -> Case) -> Vec<Case> {
    let op = |value: Value| json!([value]);
    vec![
        start("a JSON patch adds").json(cm("a"), op(json!({"op": "add", "path": "/data/m", "value": "x"}))),
        start("a JSON patch replaces").json(cm("a"), op(json!({"op": "replace", "path": "/data/k", "value": "x"}))),
        start("a JSON patch removes").json(cm("a"), op(json!({"op": "remove", "path": "/data/k"}))),
        start("a JSON patch moves").json(cm("a"), op(json!({"op": "move", "from": "/data/k", "path": "/data/n"}))),
        start("a JSON patch copies").json(cm("a"), op(json!({"op": "copy", "from": "/data/k", "path": "/data/n"}))),
        start("a JSON patch tests and holds").json(cm("a"), json!([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data/l"}])),
        start("a JSON patch tests and fails").json(cm("a"), json!([{"op": "test", "path": "/data/k", "value": "z"}, {"op": "remove", "path": "/data/l"}])),
        start("a JSON patch removes what is missing").json(cm("a"), op(json!({"op": "remove", "path": "/data/z"}))),
        start("a JSON patch replaces what is missing").json(cm("a"), op(json!({"op": "replace", "path": "/data/z", "value": "x"}))),
        start("a JSON patch adds below what is missing").json(cm("a"), op(json!({"op": "add", "path": "/nothing/z", "value": "x"}))),
        start("a JSON patch with an unknown operation").json(cm("a"), op(json!({"op": "jump", "path": "/data/z"}))),
        start("a JSON patch that is an object").json(cm("a"), json!({"op": "remove", "path": "/data/k"})),
        start("an escaped path").json(cm("a"), json!([{"op": "add", "path": "/metadata/annotations", "value": {}}, {"op": "add", "path": "/metadata/annotations/a.b~1c", "value": "x"}])),
    ]
}

fn strategic() -> Vec<Case> {
    let start = |name: &'static str| {
        let mut body = pod("a");
        body["spec"]["containers"] = json!([
            {"name": "one", "image": "one:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "two", "image": "two:1"},
        ]);
        body["metadata"]["finalizers"] = json!(["x.example/a", "x.example/b"]);
        case(name).post(core("pods", ""), body)
    };
    vec![
        start("a strategic patch merges by key").strategic(core("pods", "a"), json!({"spec": {"containers": [{"name": "two", "image": "two:2"}]}})),
        start("a strategic patch keeps the order it is told").strategic(core("pods", "a"), json!({"metadata": {"labels": {"a": "b"}}, "spec": {"$setElementOrder/containers": [{"name": "one"}, {"name": "two"}], "containers": [{"name": "one", "image": "one:2"}]}})),
        start("a strategic patch deletes from a list of texts").strategic(core("pods", "a"), json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/a"]}})),
        start("a strategic patch adds to a list of texts").strategic(core("pods", "a"), json!({"metadata": {"finalizers": ["x.example/c"]}})),
        start("a strategic patch replaces a map").strategic(core("pods", "a"), json!({"metadata": {"labels": {"$patch": "replace", "c": "d"}}})),
        start("a strategic patch without a key").strategic(core("pods", "a"), json!({"spec": {"containers": [{"image": "x:1"}]}})),
        start("a strategic patch of an image alone").strategic(core("pods", "a"), json!({"spec": {"containers": [{"name": "one", "image": "one:9"}]}})),
    ]
}
