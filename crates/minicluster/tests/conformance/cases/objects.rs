//! Creating, reading and replacing.

use serde_json::{Value, json};

use super::{cm, core, map, path};
use crate::step::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let mut all = create();
    all.extend(names());
    all.extend(replace());
    all.extend(kinds());
    all.extend(about());
    all
}

fn create() -> Vec<Case> {
    vec![
        case("a created object is read back").post(cm(""), map("a", json!({"k": "v"}))).get(cm("a")),
        case("a missing object is not found").get(cm("nothing")),
        case("a missing kind is not found").get(core("nothings", "a")),
        case("a missing group is not found").get(path("apis/no.such.group/v1", "things", "a")),
        case("a name is taken once").post(cm(""), map("a", json!({}))).post(cm(""), map("a", json!({}))),
        case("create with a resource version is refused")
            .post(cm(""), json!({"metadata": {"name": "a", "resourceVersion": "7"}})),
        case("create ignores uid and creation time")
            .post(cm(""), json!({"metadata": {"name": "a", "uid": "x", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}})),
        case("create in a missing namespace")
            .post("/api/v1/namespaces/missing-namespace/configmaps", map("a", json!({}))),
        case("create in another namespace than the path's")
            .post(cm(""), json!({"metadata": {"name": "a", "namespace": "other"}})),
        case("create without a namespace in the path").post("/api/v1/configmaps", map("a", json!({}))),
        case("kind and version may be left out").post(cm(""), json!({"metadata": {"name": "a"}})),
        case("another kind is refused").post(cm(""), json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})),
        case("another version is refused").post(cm(""), json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}})),
        case("a body that is no JSON").raw("POST", cm(""), "application/json", "{\"metadata\":"),
        case("a body that is a list").raw("POST", cm(""), "application/json", "[]"),
        case("an empty body").raw("POST", cm(""), "application/json", ""),
        case("an unknown media type").raw("POST", cm(""), "text/csv", "a,b"),
        case("YAML is read").raw("POST", cm(""), "application/yaml", "metadata:\n  name: a\ndata:\n  k: v\n"),
        case("a dry run stores nothing").post(cm("?dryRun=All"), map("a", json!({}))).get(cm("a")),
        case("an unknown field is warned of").post(cm(""), json!({"metadata": {"name": "a"}, "extra": 1})),
        case("an unknown field is refused when strict")
            .post(cm("?fieldValidation=Strict"), json!({"metadata": {"name": "a"}, "extra": 1})),
        case("an unknown field is ignored when asked")
            .post(cm("?fieldValidation=Ignore"), json!({"metadata": {"name": "a"}, "extra": 1})),
        case("an unknown field in metadata is refused when strict")
            .post(cm("?fieldValidation=Strict"), json!({"metadata": {"name": "a", "extra": 1}})),
        case("two unknown fields are refused together")
            .post(cm("?fieldValidation=Strict"), json!({"metadata": {"name": "a", "more": 2}, "extra": 1})),
        case("a number where a text belongs").post(cm(""), json!({"metadata": {"name": "a"}, "data": {"k": 1}})),
        case("a text where an object belongs").post(cm(""), json!({"metadata": {"name": "a"}, "data": "x"})),
        case("a list where metadata belongs").post(cm(""), json!({"metadata": ["a"]})),
        case("empty maps vanish").post(cm(""), json!({"metadata": {"name": "a", "labels": {}, "annotations": {}}, "data": {}})),
        case("nulls vanish").post(cm(""), json!({"metadata": {"name": "a", "labels": null}, "data": {"a": null}})),
        case("a field manager is recorded").post(cm("?fieldManager=someone"), map("a", json!({"k": "v"}))),
        case("field managers that are too long")
            .post(cm(&format!("?fieldManager={}", "x".repeat(129))), map("a", json!({}))),
    ]
}

fn names() -> Vec<Case> {
    let named = |name: Value| json!({"metadata": {"name": name}});
    let labelled = |labels: Value| json!({"metadata": {"name": "a", "labels": labels}});
    vec![
        case("a name is generated").post(cm(""), json!({"metadata": {"generateName": "gen-"}})),
        case("neither name nor prefix").post(cm(""), json!({"metadata": {}})),
        case("upper case in a name").post(cm(""), named(json!("Aa"))),
        case("an underscore in a name").post(cm(""), named(json!("a_b"))),
        case("a name that is too long").post(cm(""), named(json!("a".repeat(254)))),
        case("a service name begins with a letter")
            .post(core("services", ""), json!({"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 1}]}})),
        case("a label value with a space").post(cm(""), labelled(json!({"a": "b c"}))),
        case("a label value that is too long").post(cm(""), labelled(json!({"a": "b".repeat(64)}))),
        case("a label key with a bad prefix").post(cm(""), labelled(json!({"A_/b": "c"}))),
        case("a label key without a name").post(cm(""), labelled(json!({"a/": "c"}))),
        case("an annotation key with a space").post(cm(""), json!({"metadata": {"name": "a", "annotations": {"a b": "c"}}})),
        case("a finalizer without a domain").post(cm(""), json!({"metadata": {"name": "a", "finalizers": ["mine"]}})),
        case("an owner without a uid").post(cm(""), json!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]}})),
        case("several mistakes at once").post(cm(""), json!({"metadata": {"name": "A", "labels": {"x": "y z"}}, "data": {"a b": "c"}})),
    ]
}

fn replace() -> Vec<Case> {
    let body = |name: &str, rv: &str, data: Value| json!({"metadata": {"name": name, "resourceVersion": rv}, "data": data});
    let start = |name: &'static str| case(name).post(cm(""), map("a", json!({"k": "v"})));
    vec![
        start("a replaced object is read back")
            .put(cm("a"), body("a", "${0.rv}", json!({"k": "w"})))
            .get(cm("a")),
        start("a stale revision conflicts")
            .put(cm("a"), body("a", "${0.rv}", json!({"k": "w"})))
            .put(cm("a"), body("a", "${0.rv}", json!({"k": "x"}))),
        start("a replacement without a revision is taken")
            .put(cm("a"), map("a", json!({"k": "w"}))),
        start("a replacement that changes nothing keeps the revision")
            .put(cm("a"), map("a", json!({"k": "v"}))),
        start("a replacement under another name").put(cm("a"), map("b", json!({}))),
        start("a replacement without a name").put(cm("a"), json!({"data": {}})),
        start("a replacement with another uid").put(
            cm("a"),
            json!({"metadata": {"name": "a", "uid": "12345678-1234-4123-8123-123456789012"}}),
        ),
        start("a replacement with a revision that is no number")
            .put(cm("a"), body("a", "abc", json!({}))),
        case("a replacement of nothing").put(cm("a"), map("a", json!({}))),
        start("a dry replacement")
            .put(cm("a?dryRun=All"), map("a", json!({"k": "w"})))
            .get(cm("a")),
        start("another manager takes a field over").put(
            cm("a?fieldManager=other"),
            map("a", json!({"k": "w", "l": "x"})),
        ),
        start("a replacement drops fields").put(
            cm("a"),
            json!({"metadata": {"name": "a", "labels": {"x": "y"}}}),
        ),
        case("an immutable map stays")
            .post(
                cm(""),
                json!({"metadata": {"name": "a"}, "immutable": true, "data": {"k": "v"}}),
            )
            .put(
                cm("a"),
                json!({"metadata": {"name": "a"}, "immutable": true, "data": {"k": "w"}}),
            )
            .put(
                cm("a"),
                json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
            ),
        start("POST on an object is not allowed").post(cm("a"), map("a", json!({}))),
        start("PUT on a collection is not allowed").put(cm(""), map("a", json!({}))),
    ]
}

fn kinds() -> Vec<Case> {
    let rbac = "apis/rbac.authorization.k8s.io/v1";
    let leases = "apis/coordination.k8s.io/v1";
    let lease = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let service = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    vec![
        case("a secret's text becomes data").post(core("secrets", ""), json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}, "data": {"l": "eA=="}})),
        case("a secret's data must be base64").post(core("secrets", ""), json!({"metadata": {"name": "a"}, "data": {"k": "not base64!"}})),
        case("a secret's type stays")
            .post(core("secrets", ""), json!({"metadata": {"name": "a"}, "type": "x/y"}))
            .put(core("secrets", "a"), json!({"metadata": {"name": "a"}, "type": "x/z"})),
        case("a service gets an address").post(core("services", ""), service(json!({"ports": [{"port": 80}], "selector": {"a": "b"}}))),
        case("a headless service").post(core("services", ""), service(json!({"clusterIP": "None", "selector": {"a": "b"}}))),
        case("a service without ports").post(core("services", ""), service(json!({"selector": {"a": "b"}}))),
        case("ports of a service need names").post(core("services", ""), service(json!({"ports": [{"port": 80}, {"port": 81}]}))),
        case("a service keeps its address")
            .post(core("services", ""), service(json!({"ports": [{"port": 80}]})))
            .put(core("services", "a"), service(json!({"ports": [{"port": 81}]}))),
        case("a service's address is immutable")
            .post(core("services", ""), service(json!({"clusterIP": "None", "selector": {"a": "b"}})))
            .merge(core("services", "a"), json!({"spec": {"clusterIP": "10.96.0.77", "ports": [{"port": 1}]}})),
        case("a service account").post(core("serviceaccounts", ""), json!({"metadata": {"name": "a"}})),
        case("a role").post(path(rbac, "roles", ""), json!({"metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})),
        case("a role binding").post(path(rbac, "rolebindings", ""), json!({"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]})),
        case("a role binding's role stays")
            .post(path(rbac, "rolebindings", ""), json!({"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}}))
            .merge(path(rbac, "rolebindings", "a"), json!({"roleRef": {"name": "b"}})),
        case("a lease is taken, renewed and released")
            .post(path(leases, "leases", ""), lease(json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 0})))
            .put(path(leases, "leases", "a"), json!({"metadata": {"name": "a", "resourceVersion": "${0.rv}"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:05.123456Z", "leaseTransitions": 1}}))
            .put(path(leases, "leases", "a"), json!({"metadata": {"name": "a", "resourceVersion": "${1.rv}"}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}))
            .put(path(leases, "leases", "a"), json!({"metadata": {"name": "a", "resourceVersion": "${0.rv}"}, "spec": {"holderIdentity": "other"}})),
        case("a lease's term is positive").post(path(leases, "leases", ""), lease(json!({"leaseDurationSeconds": 0}))),
        case("a lease that is missing is created by a replacement").put(path(leases, "leases", "a"), lease(json!({"holderIdentity": "me"}))),
        case("an event of the older kind")
            .post(core("events", ""), json!({"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "${ns}"}, "reason": "R", "message": "m", "type": "Normal"}))
            .get(path("apis/events.k8s.io/v1", "events", "a")),
        case("an event of the newer kind")
            .post(path("apis/events.k8s.io/v1", "events", ""), json!({"metadata": {"name": "a"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c.example/x", "reportingInstance": "i", "action": "Do", "reason": "R", "type": "Warning", "note": "n", "regarding": {"kind": "Pod", "name": "p", "namespace": "${ns}"}}))
            .get(core("events", "a")),
        case("a namespace is there").get("/api/v1/namespaces/${ns}"),
        case("a network policy")
            .post(path("apis/networking.k8s.io/v1", "networkpolicies", ""), json!({"metadata": {"name": "a"}, "spec": {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 22}]}], "egress": [{}]}}))
            .merge(path("apis/networking.k8s.io/v1", "networkpolicies", "a"), json!({"spec": {"egress": null, "policyTypes": ["Ingress"]}})),
        case("a priority class").post("/apis/scheduling.k8s.io/v1/priorityclasses", json!({"metadata": {"generateName": "gen-"}, "value": 7})),
    ]
}

fn about() -> Vec<Case> {
    vec![
        case("a resource list of a missing version").get("/apis/batch/v7"),
        case("a missing path").get("/nothing/at/all"),
        case("health").get("/healthz"),
        case("a namespaced path of a cluster-wide kind").get(core("nodes", "")),
        case("an answer that cannot be given").get_as(cm(""), "text/csv"),
    ]
}
