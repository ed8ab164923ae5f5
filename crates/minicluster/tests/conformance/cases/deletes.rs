//! Deleting: preconditions, finalizers, dependents, collections.

use serde_json::{Value, json};

use super::{cm, core, map, path, pod};
use crate::step::{Case, case};

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(crate) fn cases() -> Vec<Case> {
    let start = |name: &'static str| case(name).post(cm(""), map("a", json!({"k": "v"})));
    let owned = |name: &str, owner: &str, blocks: bool| json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner, "blockOwnerDeletion": blocks}]}});
    let held = |finalizers: Value| json!({"metadata": {"name": "a", "finalizers": finalizers}});
    let mut all = vec![
        start("a deleted object is gone")
            .delete(cm("a"), Value::Null)
            .get(cm("a")),
        case("deleting nothing").delete(cm("a"), Value::Null),
        start("deleting with the right uid")
            .delete(cm("a"), json!({"preconditions": {"uid": "${0.uid}"}})),
        start("deleting with another uid")
            .delete(
                cm("a"),
                json!({"preconditions": {"uid": "12345678-1234-4123-8123-123456789012"}}),
            )
            .get(cm("a")),
        start("deleting with the right revision").delete(
            cm("a"),
            json!({"preconditions": {"resourceVersion": "${0.rv}"}}),
        ),
        start("deleting with a stale revision")
            .merge(cm("a"), json!({"data": {"k": "x"}}))
            .delete(
                cm("a"),
                json!({"preconditions": {"resourceVersion": "${0.rv}"}}),
            ),
        start("a dry deletion")
            .delete(cm("a?dryRun=All"), Value::Null)
            .get(cm("a")),
        start("an unknown propagation").delete(cm("a"), json!({"propagationPolicy": "Sideways"})),
        case("a finalizer holds an object")
            .post(cm(""), held(json!(["x.example/a"])))
            .delete(cm("a"), Value::Null)
            .delete(cm("a"), Value::Null)
            .merge(cm("a"), json!({"metadata": {"finalizers": null}}))
            .get(cm("a")),
        case("no new finalizer while deleting")
            .post(cm(""), held(json!(["x.example/a"])))
            .delete(cm("a"), Value::Null)
            .merge(
                cm("a"),
                json!({"metadata": {"finalizers": ["x.example/a", "x.example/b"]}}),
            ),
        case("an object on its way out can be changed")
            .post(cm(""), held(json!(["x.example/a"])))
            .delete(cm("a"), Value::Null)
            .merge(cm("a"), json!({"data": {"k": "v"}})),
        start("dependents go in the background")
            .post(cm(""), owned("b", "${0.uid}", false))
            .delete(cm("a"), json!({"propagationPolicy": "Background"}))
            .until(cm("b"), 404),
        start("dependents stay as orphans")
            .post(cm(""), owned("b", "${0.uid}", false))
            .delete(cm("a"), json!({"propagationPolicy": "Orphan"}))
            .until(cm("a"), 404)
            .until(cm("b"), 200),
        start("the owner waits in the foreground")
            .post(cm(""), owned("b", "${0.uid}", true))
            .delete(cm("a"), json!({"propagationPolicy": "Foreground"}))
            .until(cm("b"), 404)
            .until(cm("a"), 404),
        case("an owner that never was")
            .post(
                cm(""),
                owned("b", "12345678-1234-4123-8123-123456789012", false),
            )
            .until(cm("b"), 404),
        case("a pod that was never bound goes at once")
            .post(core("pods", ""), pod("a"))
            .delete(core("pods", "a"), Value::Null)
            .get(core("pods", "a")),
        case("a bound pod is given its time")
            .post(core("pods", ""), bound("a"))
            .delete(core("pods", "a"), Value::Null)
            .delete(core("pods", "a"), json!({"gracePeriodSeconds": 5}))
            .delete(core("pods", "a"), json!({"gracePeriodSeconds": 60}))
            .delete(core("pods", "a"), json!({"gracePeriodSeconds": 0}))
            .get(core("pods", "a")),
        case("a pod is given the time that the request says")
            .post(core("pods", ""), bound("a"))
            .delete(core("pods", "a?gracePeriodSeconds=7"), Value::Null),
        case("a service goes")
            .post(
                core("services", ""),
                json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}}),
            )
            .delete(core("services", "a"), Value::Null),
        case("a secret goes")
            .post(core("secrets", ""), json!({"metadata": {"name": "a"}}))
            .delete(core("secrets", "a"), Value::Null),
        case("a service account goes")
            .post(
                core("serviceaccounts", ""),
                json!({"metadata": {"name": "a"}}),
            )
            .delete(core("serviceaccounts", "a"), Value::Null),
        case("a lease goes")
            .post(
                path("apis/coordination.k8s.io/v1", "leases", ""),
                json!({"metadata": {"name": "a"}}),
            )
            .delete(
                path("apis/coordination.k8s.io/v1", "leases", "a"),
                Value::Null,
            ),
        case("an event goes")
            .post(
                core("events", ""),
                json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "${ns}"}}),
            )
            .delete(core("events", "a"), Value::Null),
        case("a job goes and leaves its pods by default")
            .post(
                path("apis/batch/v1", "jobs", ""),
                super::jobs::job("a", true),
            )
            .delete(path("apis/batch/v1", "jobs", "a"), Value::Null),
        case("a job goes in the background")
            .post(
                path("apis/batch/v1", "jobs", ""),
                super::jobs::job("a", true),
            )
            .delete(
                path("apis/batch/v1", "jobs", "a"),
                json!({"propagationPolicy": "Background"}),
            ),
    ];
    all.extend(vec![
        case("a selected collection goes")
            .post(
                cm(""),
                json!({"metadata": {"name": "a", "labels": {"x": "1"}}}),
            )
            .post(
                cm(""),
                json!({"metadata": {"name": "b", "labels": {"x": "2"}}}),
            )
            .delete(cm("?labelSelector=x%3D1"), Value::Null)
            .get(cm("a"))
            .get(cm("b")),
        // After `kube-root-ca.crt`: the API server asks etcd page by page, and a page that does not end with
        // the last key has a token, whatever the selector.
        case("a collection goes page by page")
            .post(
                cm(""),
                json!({"metadata": {"name": "one", "labels": {"x": "1"}}}),
            )
            .post(
                cm(""),
                json!({"metadata": {"name": "two", "labels": {"x": "1"}}}),
            )
            .delete(cm("?labelSelector=x%3D1&limit=1&continue="), Value::Null)
            .get(cm("two"))
            .delete(
                cm("?labelSelector=x%3D1&limit=1&continue=${2.continue}"),
                Value::Null,
            )
            .answered_as(
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            )
            .get(cm("two")),
        case("pods that are not over go, selected by field")
            .post(core("pods", ""), pod("a"))
            .post(core("pods", ""), bound("b"))
            .delete(
                core(
                    "pods",
                    "?fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed",
                ),
                Value::Null,
            )
            .get(core("pods", "b")),
        case("an empty collection goes").delete(core("pods", ""), Value::Null),
        case("a namespace cannot be collected").delete("/api/v1/namespaces", Value::Null),
    ]);
    all
}

/// A pod that says where it is.
pub(crate) fn bound(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "nowhere".into();
    pod["metadata"]["finalizers"] = json!(["x.example/stay"]);
    pod
}
