//! Lists: selectors, pages, forms, tables.

use serde_json::json;

use super::{cm, core, map, pod};
use crate::step::{Case, case};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const PARTIAL_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

pub(crate) fn cases() -> Vec<Case> {
    let labelled =
        |name: &str, x: &str| json!({"metadata": {"name": name, "labels": {"x": x, "n": name}}});
    let start = |name: &'static str| {
        case(name)
            .post(core("secrets", ""), labelled("a", "1"))
            .post(core("secrets", ""), labelled("b", "2"))
            .post(core("secrets", ""), labelled("c", "1"))
    };
    let secrets = |query: &str| core("secrets", query);
    let mut all = vec![
        start("a list has all, in order").get(secrets("")),
        start("a list by label").get(secrets("?labelSelector=x%3D1")),
        start("a list by a set of labels").get(secrets("?labelSelector=n%20in%20(a,b)")),
        start("a list by an absent label").get(secrets("?labelSelector=!x")),
        start("a list by label not equal").get(secrets("?labelSelector=x!%3D1")),
        start("a list by labels above a number").get(secrets("?labelSelector=x%3E1")),
        start("a list by labels below a number").get(secrets("?labelSelector=x%3C2,n")),
        start("labels that are no numbers").get(secrets("?labelSelector=n%3E1")),
        start("a label above no number").get(secrets("?labelSelector=x%3Ea")),
        start("a bad label selector").get(secrets("?labelSelector=a%20b")),
        start("a bad label value").get(secrets("?labelSelector=a%3Db%20c")),
        start("a list by name").get(secrets("?fieldSelector=metadata.name%3Db")),
        start("a list by type").get(secrets("?fieldSelector=type%3DOpaque")),
        start("a list by a field that cannot be selected")
            .get(secrets("?fieldSelector=data.k%3Dv")),
        start("a bad field selector").get(secrets("?fieldSelector=nothing")),
        start("pages")
            .get(secrets("?limit=2"))
            .get(secrets("?limit=2&continue=${3.continue}")),
        start("pages show the beginning's state")
            .get(secrets("?limit=1"))
            .delete(secrets("b"), serde_json::Value::Null)
            .post(secrets(""), labelled("d", "1"))
            .get(secrets("?limit=5&continue=${3.continue}")),
        start("a bad token").get(secrets("?limit=2&continue=zzz")),
        start("a revision of the future").get(secrets("?resourceVersion=99999999999")),
        start("a revision that is no number").get(secrets("?resourceVersion=abc")),
        // The real one answers these from a cache, which a list of the newest state brings up to date.
        start("any revision")
            .get(secrets(""))
            .get(secrets("?resourceVersion=0")),
        start("at least a revision").get(secrets("")).get(secrets(
            "?resourceVersion=${0.rv}&resourceVersionMatch=NotOlderThan",
        )),
        start("exactly a revision").get(secrets(
            "?resourceVersion=${1.rv}&resourceVersionMatch=Exact",
        )),
        start("metadata alone").get_as(secrets("a"), PARTIAL),
        start("a list of metadata alone").get_as(secrets(""), PARTIAL_LIST),
        case("an empty list").get(secrets("")),
    ];
    all.extend(vec![
        case("a table of maps").post(cm(""), map("a", json!({"k": "v"}))).get_as(cm("?labelSelector=none%3Dx"), TABLE),
        case("a table's object").post(core("secrets", ""), labelled("a", "1")).get_as(secrets("a"), TABLE),
        case("a table of pods").post(core("pods", ""), pod("a")).get_as(core("pods", ""), TABLE),
        case("a table of services").post(core("services", ""), json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}], "selector": {"a": "b"}}})).get_as(core("services", ""), TABLE),
        case("a list of custom objects")
            .post(super::custom::w(""), super::custom::widget(json!({"size": 3})))
            .get(super::custom::w("")),
        case("a table of custom objects")
            .post(super::custom::w(""), super::custom::widget(json!({"size": 3})))
            .get_as(super::custom::w(""), TABLE),
        case("custom objects by a field of theirs")
            .post(super::custom::w(""), super::custom::widget(json!({"size": 3})))
            .get(super::custom::w("?fieldSelector=spec.color%3Dred"))
            .get(super::custom::w("?fieldSelector=spec.color%3Dgreen"))
            .get(super::custom::w("?fieldSelector=spec.size%3D3")),
    ]);
    all
}
