//! Watches: what they tell, from where, in which order.

use serde_json::json;

use super::{cm, core, map, pod};
use crate::step::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let history = |name: &'static str| {
        case(name)
            .post(
                core("secrets", ""),
                json!({"metadata": {"name": "a", "labels": {"x": "1"}}}),
            )
            .merge(
                core("secrets", "a"),
                json!({"metadata": {"labels": {"x": "2"}}}),
            )
            .post(
                core("secrets", ""),
                json!({"metadata": {"name": "b", "labels": {"x": "1"}}}),
            )
            .merge(
                core("secrets", "a"),
                json!({"metadata": {"labels": {"x": "1"}}}),
            )
            .delete(core("secrets", "b"), serde_json::Value::Null)
    };
    let watch = |query: &str| core("secrets", &format!("?watch=true&timeoutSeconds=1{query}"));
    vec![
        history("a watch tells history in order").get(watch("&resourceVersion=${0.rv}")),
        history("a watch by label sees objects come and go").get(watch("&resourceVersion=${0.rv}&labelSelector=x%3D1")),
        history("a watch by name").get(watch("&resourceVersion=${0.rv}&fieldSelector=metadata.name%3Db")),
        history("a watch from now has what is there").get(watch("")),
        // The list brings the real one's cache up to date, from which this watch begins.
        history("a watch from anywhere has what is there").get(core("secrets", "")).get(watch("&resourceVersion=0")),
        history("a streaming list ends with a mark").get(watch("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")),
        // Since no version: at an older one, a server may or may not begin with what went since.
        history("a streaming list by label").get(watch("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=x%3D1")),
        history("a streaming list needs a match").get(watch("&sendInitialEvents=true&allowWatchBookmarks=true")),
        history("a watch since no number").get(watch("&resourceVersion=abc")),
        history("a watch by a bad selector").get(watch("&labelSelector=a%20b")),
        case("a watch of metadata alone")
            .post(cm(""), map("a", json!({"k": "v"})))
            .merge(cm("a"), json!({"data": {"k": "w"}}))
            .get_as(
                cm("?watch=true&timeoutSeconds=1&resourceVersion=${0.rv}&fieldSelector=metadata.name%3Da"),
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            ),
        case("a pod's phase moves it out of a watch")
            .post(core("pods", ""), pod("a"))
            .merge(core("pods", "a/status"), json!({"status": {"phase": "Running"}}))
            .merge(core("pods", "a/status"), json!({"status": {"phase": "Succeeded"}}))
            .get(core("pods", "?watch=true&timeoutSeconds=1&resourceVersion=${0.rv}&fieldSelector=status.phase%3DRunning")),
        case("custom objects are watched")
            .post(super::custom::w(""), super::custom::widget(json!({"size": 3})))
            .merge(super::custom::w("a"), json!({"spec": {"size": 4}}))
            .merge(super::custom::w("a/status"), json!({"status": {"phase": "x"}}))
            .delete(super::custom::w("a"), serde_json::Value::Null)
            .get(super::custom::w("?watch=true&timeoutSeconds=1&resourceVersion=${0.rv}")),
    ]
}
