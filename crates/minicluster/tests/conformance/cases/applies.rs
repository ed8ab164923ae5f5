//! Server-side apply: ownership, conflicts, removal, lists by key.

use serde_json::{Value, json};

use super::{cm, core, path};
use crate::step::{Case, case};

fn by(name: &str, manager: &str) -> String {
    cm(&format!("{name}?fieldManager={manager}"))
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(crate) fn cases() -> Vec<Case> {
    let w = |query: &str| {
        path(
            "apis/conf.example.com/v1",
            "widgets",
            &format!("a?fieldManager={query}"),
        )
    };
    let start =
        |name: &'static str| case(name).apply(by("a", "one"), map(json!({"k": "v", "l": "w"})));
    let mut all = vec![
        start("apply creates").get(cm("a")),
        start("apply again changes nothing").apply(by("a", "one"), map(json!({"k": "v", "l": "w"}))),
        start("apply without a field removes it").apply(by("a", "one"), map(json!({"k": "v"}))),
        start("apply of another's field with another value conflicts").apply(by("a", "two"), map(json!({"k": "x"}))),
        start("apply of two fields of another conflicts").apply(by("a", "two"), map(json!({"k": "x", "l": "y"}))),
        start("apply by force takes over").apply(by("a", "two&force=true"), map(json!({"k": "x"}))),
        start("apply of the same value shares").apply(by("a", "two"), map(json!({"k": "v"}))),
        start("a shared field stays until all give it up")
            .apply(by("a", "two"), map(json!({"k": "v"})))
            .apply(by("a", "one"), map(json!({"l": "w"})))
            .apply(by("a", "two"), map(json!({}))),
        start("an update takes a field from an applier")
            .merge(cm("a?fieldManager=three"), json!({"data": {"k": "x"}}))
            .apply(by("a", "one"), map(json!({"k": "v", "l": "w"}))),
        start("a field removed by an update comes back")
            .merge(cm("a?fieldManager=three"), json!({"data": {"k": null}}))
            .apply(by("a", "one"), map(json!({"k": "v", "l": "w"}))),
        start("apply of nothing gives everything up").apply(by("a", "one"), json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        case("apply without a manager").apply(cm("a"), map(json!({}))),
        case("apply with managed fields").apply(by("a", "one"), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}})),
        case("apply under another name").apply(by("b", "one"), map(json!({}))),
        case("apply without a kind").apply(by("a", "one"), json!({"metadata": {"name": "a"}})),
        case("apply of an unknown field").apply(by("a", "one"), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "extra": 1})),
        case("a dry apply").apply(by("a", "one&dryRun=All"), map(json!({"k": "v"}))).get(cm("a")),
        start("apply with a stale revision")
            .merge(cm("a"), json!({"data": {"z": "z"}}))
            .apply(by("a", "one"), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "${0.rv}"}, "data": {"k": "x"}})),
        case("apply over a created object conflicts")
            .post(cm("?fieldManager=maker"), super::map("a", json!({"k": "v"})))
            .apply(by("a", "one"), map(json!({"k": "x"}))),
        case("apply adds to a created object")
            .post(cm("?fieldManager=maker"), super::map("a", json!({"k": "v"})))
            .apply(by("a", "one"), map(json!({"l": "x"})))
            .apply(by("a", "one"), map(json!({}))),
        start("labels are owned one by one")
            .apply(by("a", "two"), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"x": "1"}}}))
            .apply(by("a", "three"), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"y": "2"}}}))
            .apply(by("a", "two"), json!({"apiVersion": "v1", "kind": "ConfigMap"})),
    ];
    all.extend(vec![
        case("a custom object is applied").apply(w("one"), widget(json!({"size": 3, "parts": [{"name": "x"}, {"name": "y", "count": 4}], "tags": ["a", "b"]}))),
        case("parts are owned by key")
            .apply(w("one"), widget(json!({"size": 3, "parts": [{"name": "x", "count": 2}]})))
            .apply(w("two"), widget(json!({"parts": [{"name": "y", "count": 2}]})))
            .apply(w("one"), widget(json!({"size": 3}))),
        case("parts keep the applied order")
            .apply(w("one"), widget(json!({"size": 3, "parts": [{"name": "x"}, {"name": "y"}, {"name": "z"}]})))
            .apply(w("two"), widget(json!({"parts": [{"name": "n"}]})))
            .apply(w("one"), widget(json!({"size": 3, "parts": [{"name": "z"}, {"name": "x"}]}))),
        case("a set is merged")
            .apply(w("one"), widget(json!({"size": 3, "tags": ["a", "b"]})))
            .apply(w("two"), widget(json!({"tags": ["b", "c"]})))
            .apply(w("one"), widget(json!({"size": 3, "tags": []}))),
        case("a plain list is one field")
            .apply(w("one"), widget(json!({"size": 3, "plain": ["a"]})))
            .apply(w("two"), widget(json!({"plain": ["b"]}))),
        case("a part without its key").apply(w("one"), widget(json!({"size": 3, "parts": [{"count": 1}]}))),
        case("a free map is merged")
            .apply(w("one"), widget(json!({"size": 3, "free": {"a": {"b": 1}}})))
            .apply(w("two"), widget(json!({"free": {"a": {"c": 2}}})))
            .apply(w("one"), widget(json!({"size": 3}))),
        case("the status is applied apart")
            .apply(w("one"), widget(json!({"size": 3})))
            .apply(
                path("apis/conf.example.com/v1", "widgets", "a/status?fieldManager=two"),
                json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "status": {"phase": "Good"}}),
            ),
        case("a service is applied").apply(core("services", "a?fieldManager=one"), json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})),
        case("a pod is applied").apply(core("pods", "a?fieldManager=one"), json!({"apiVersion": "v1", "kind": "Pod", "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}]}})),
    ]);
    all
}
