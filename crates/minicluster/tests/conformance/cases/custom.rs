//! Custom resources: pruning, defaults, validation, rules, generations, and the shipped kind.

use serde_json::{Value, json};

use super::path;
use crate::step::{Case, case};

/// The path of the cases' own kind.
pub(crate) fn w(name: &str) -> String {
    path("apis/conf.example.com/v1", "widgets", name)
}

/// One of the cases' own kind.
pub(crate) fn widget(spec: Value) -> Value {
    json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

fn made(name: &'static str, spec: Value) -> Case {
    case(name).post(w(""), widget(spec))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = creation();
    all.extend(change());
    all.extend(shipped());
    all
}

fn creation() -> Vec<Case> {
    vec![
        made("defaults are filled in", json!({"size": 3})),
        made("defaults within lists", json!({"size": 3, "parts": [{"name": "x"}]})),
        made("unknown fields are pruned", json!({"size": 3, "extra": 1, "nested": {"more": 2}})),
        case("unknown fields are refused when strict").post(w("?fieldValidation=Strict"), widget(json!({"size": 3, "extra": 1}))),
        case("unknown fields at the top").post(w("?fieldValidation=Strict"), json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}, "extra": 1})),
        made("unknown fields are kept where that is said", json!({"size": 3, "free": {"a": [1, {"b": null}]}})),
        made("a missing field", json!({})),
        case("a missing spec").post(w(""), json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}})),
        made("a wrong type", json!({"size": "three"})),
        made("a fraction", json!({"size": 1.5})),
        made("too small", json!({"size": 0})),
        made("too large", json!({"size": 101, "big": true})),
        made("a value that is not listed", json!({"size": 3, "color": "blue"})),
        made("a text that does not match", json!({"size": 3, "name": "ABC"})),
        made("a text that is too long", json!({"size": 3, "name": "abcdefghi"})),
        made("a list that is too long", json!({"size": 3, "plain": ["a", "b", "c", "d"]})),
        made("a set with two alike", json!({"size": 3, "tags": ["a", "a"]})),
        made("two parts with one key", json!({"size": 3, "parts": [{"name": "x"}, {"name": "x"}]})),
        made("a part without its key", json!({"size": 3, "parts": [{"count": 1}]})),
        made("a number or a text", json!({"size": 3, "port": "http"})),
        made("neither number nor text", json!({"size": 3, "port": true})),
        made("a null where it may be", json!({"size": 3, "note": null})),
        made("a null where a default is", json!({"size": 3, "color": null, "nested": null})),
        made("a null where nothing is", json!({"size": 3, "name": null})),
        made("a rule that is broken", json!({"size": 60})),
        made("a rule that holds", json!({"size": 60, "big": true})),
        made("several mistakes", json!({"size": 0, "color": "blue", "labels": {"a": 1}})),
        case("a new object's status counts for nothing").post(w(""), json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}, "status": {"phase": "x"}})),
        case("a custom object needs its kind").post(w(""), json!({"metadata": {"name": "a"}, "spec": {"size": 3}})),
        case("a custom object's bad name").post(w(""), json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "A"}, "spec": {"size": 3}})),
    ]
}

fn change() -> Vec<Case> {
    let start = |name: &'static str| made(name, json!({"size": 3}));
    vec![
        start("a change of spec counts").merge(w("a"), json!({"spec": {"size": 4}})),
        start("a change of labels does not count").merge(w("a"), json!({"metadata": {"labels": {"a": "b"}}})),
        start("a change of status does not count").merge(w("a/status"), json!({"status": {"phase": "x", "extra": 1}})),
        start("a status write leaves the rest").merge(w("a/status"), json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"phase": "x"}})),
        start("a write leaves the status").merge(w("a/status"), json!({"status": {"phase": "x"}})).merge(w("a"), json!({"spec": {"size": 4}, "status": {"phase": "y"}})),
        start("a status of the wrong type").merge(w("a/status"), json!({"status": {"count": "x"}})),
        start("a status write with a stale revision")
            .merge(w("a"), json!({"spec": {"size": 4}}))
            .merge(w("a/status"), json!({"metadata": {"resourceVersion": "${0.rv}", "uid": "${0.uid}"}, "status": {"phase": "x"}})),
        start("a status write with another uid").merge(w("a/status"), json!({"metadata": {"uid": "12345678-1234-4123-8123-123456789012"}, "status": {"phase": "x"}})),
        start("a status that changes nothing keeps the revision").merge(w("a/status"), json!({"status": {"phase": "x"}})).merge(w("a/status"), json!({"status": {"phase": "x"}})),
        start("a rule about change").merge(w("a"), json!({"spec": {"color": "green"}})),
        start("a replacement needs a revision").put(w("a"), widget(json!({"size": 4}))),
        start("a replacement").put(w("a"), json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "${0.rv}"}, "spec": {"size": 4}})),
        start("no strategic patches").strategic(w("a"), json!({"spec": {"size": 4}})),
        start("a JSON patch of a custom object").json(w("a"), json!([{"op": "replace", "path": "/spec/size", "value": 9}])),
        start("a merge patch that is refused").merge(w("a"), json!({"spec": {"size": 0}})),
        start("a merge patch with an unknown field, pruned").merge(w("a"), json!({"spec": {"extra": 1}})),
        start("a custom object goes").delete(w("a"), Value::Null).get(w("a")),
        start("a custom object goes with the right uid").delete(w("a"), json!({"propagationPolicy": "Background", "preconditions": {"uid": "${0.uid}"}})),
        case("a custom object that waits counts its deletion")
            .post(w(""), json!({"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": "a", "finalizers": ["x.example/a"]}, "spec": {"size": 3}}))
            .delete(w("a"), Value::Null)
            .merge(w("a"), json!({"metadata": {"finalizers": []}}))
            .get(w("a")),
        start("a collection of custom objects goes").delete(w(""), Value::Null),
        case("no status of nothing").merge(w("a/status"), json!({"status": {}})),
        case("no such subresource").get(w("a/scale")),
    ]
}

fn shipped() -> Vec<Case> {
    let jobs = |name: &str| path("apis/kubeflow.org/v2beta1", "mpijobs", name);
    let job = |spec: Value| json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"}, "spec": spec});
    let template = json!({"spec": {"containers": [{"name": "main", "image": "none:1", "command": ["mpirun"], "resources": {"limits": {"cpu": 1}}, "ports": [{"containerPort": 22}]}]}});
    let replicas = json!({"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}});
    vec![
        case("a shipped job").post(jobs(""), job(json!({"mpiReplicaSpecs": replicas}))),
        case("a shipped job with settings").post(jobs(""), job(json!({"slotsPerWorker": 2, "mpiImplementation": "Intel", "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 3}, "mpiReplicaSpecs": replicas}))),
        case("a shipped job of no known implementation").post(jobs(""), job(json!({"mpiImplementation": "None", "mpiReplicaSpecs": replicas}))),
        case("a shipped job without replicas").post(jobs(""), job(json!({}))),
        case("a shipped job with a typo").post(jobs("?fieldValidation=Strict"), job(json!({"slotPerWorker": 2, "mpiReplicaSpecs": replicas}))),
        case("a shipped job is applied").apply(jobs("pi?fieldManager=kubectl"), job(json!({"mpiReplicaSpecs": replicas}))),
        case("a shipped job's status")
            .post(jobs(""), job(json!({"mpiReplicaSpecs": replicas})))
            .merge(jobs("pi/status"), json!({"metadata": {"uid": "${0.uid}", "resourceVersion": "${0.rv}"}, "status": {"conditions": [{"type": "Created", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}], "replicaStatuses": {"Worker": {"active": 1}}, "startTime": "2026-01-01T00:00:00Z"}})),
        case("a shipped job is suspended").post(jobs(""), job(json!({"runPolicy": {"suspend": true}, "mpiReplicaSpecs": replicas}))).merge(jobs("pi"), json!({"spec": {"runPolicy": {"suspend": false}}})),
        case("a shipped job's table").post(jobs(""), job(json!({"mpiReplicaSpecs": replicas}))).get_as(jobs(""), "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
    ]
}
