//! Pods: defaults, refusals, status, logs, bindings.

use serde_json::{Value, json};

use super::{core, pod};
use crate::step::{Case, case};

fn with(name: &'static str, change: impl FnOnce(&mut Value)) -> Case {
    let mut body = pod("a");
    change(&mut body);
    case(name).post(core("pods", ""), body)
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = good();
    all.extend(bad());
    all.extend(later());
    all
}

fn good() -> Vec<Case> {
    vec![
        with("a pod's defaults", |_| {}),
        with("a pod with everything that is filled in", |pod| {
            pod["spec"]["initContainers"] = json!([{"name": "init", "image": "x"}]);
            pod["spec"]["containers"][0] = json!({
                "name": "main",
                "image": "host:5000/x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "ports": [{"containerPort": 22}],
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "value": ""}],
                "readinessProbe": {"tcpSocket": {"port": 22}},
                "livenessProbe": {"httpGet": {"port": "web"}},
                "startupProbe": {"exec": {"command": ["true"]}},
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            });
            pod["spec"]["volumes"] = json!([
                {"name": "a"},
                {"name": "b", "secret": {"secretName": "s"}},
                {"name": "c", "configMap": {"name": "m", "items": [{"key": "k", "path": "p", "mode": 256}]}},
                {"name": "d", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.annotations"}}]}},
                {"name": "e", "projected": {"sources": [{"secret": {"name": "s"}}]}},
                {"name": "f", "hostPath": {"path": "/x"}},
                {"name": "g", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}},
            ]);
        }),
        with("a pod with requests", |pod| {
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": 0.5, "memory": "1e3"}, "limits": {"cpu": 2, "example.com/gpu": "1"}});
        }),
        with("a host network pod", |pod| {
            pod["spec"]["hostNetwork"] = true.into();
            pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 22, "name": "ssh"}]);
        }),
        with("a pod with host names", |pod| {
            pod["spec"]["hostname"] = "h".into();
            pod["spec"]["subdomain"] = "s".into();
            pod["spec"]["restartPolicy"] = "Never".into();
            pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
            pod["spec"]["activeDeadlineSeconds"] = 9.into();
        }),
        with("a pod with its own tolerations", |pod| {
            pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        }),
        with("a pod with scheduling gates", |pod| {
            pod["spec"]["schedulingGates"] = json!([{"name": "x.example/gate"}]);
        }),
        with("false and zero are left out", |pod| {
            pod["spec"]["hostNetwork"] = false.into();
            pod["spec"]["containers"][0]["tty"] = false.into();
            pod["spec"]["containers"][0]["workingDir"] = "".into();
            pod["spec"]["containers"][0]["command"] = json!([]);
            pod["spec"]["nodeSelector"] = json!({});
        }),
        with("security contexts", |pod| {
            pod["spec"]["securityContext"] =
                json!({"runAsUser": 0, "runAsNonRoot": false, "fsGroup": 5});
            pod["spec"]["containers"][0]["securityContext"] =
                json!({"privileged": false, "capabilities": {"add": ["SYS_PTRACE"]}});
        }),
        with("a status in a new pod counts for nothing", |pod| {
            pod["status"] = json!({"phase": "Running", "podIP": "1.2.3.4"});
        }),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn bad() -> Vec<Case> {
    let container = |name: &'static str, change: Value| {
        with(name, |pod| {
            for (field, value) in change.as_object().into_iter().flatten() {
                pod["spec"]["containers"][0][field] = value.clone();
            }
        })
    };
    vec![
        with("a pod without containers", |pod| {
            pod["spec"]["containers"] = json!([])
        }),
        with("a pod without a spec", |pod| pod["spec"] = json!({})),
        container("a container without a name", json!({"name": ""})),
        container("a container with a bad name", json!({"name": "A_"})),
        container("a container without an image", json!({"image": ""})),
        container("an image with a space", json!({"image": " x"})),
        container("a port of zero", json!({"ports": [{"containerPort": 0}]})),
        container(
            "a port that is too large",
            json!({"ports": [{"containerPort": 70000}]}),
        ),
        container(
            "a protocol that is none",
            json!({"ports": [{"containerPort": 1, "protocol": "ICMP"}]}),
        ),
        container(
            "a variable without a name",
            json!({"env": [{"value": "x"}]}),
        ),
        container(
            "a variable with two values",
            json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        ),
        container(
            "a mount without a volume",
            json!({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}),
        ),
        container(
            "a mount without a path",
            json!({"volumeMounts": [{"name": "x"}]}),
        ),
        container(
            "a request above its limit",
            json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
        ),
        container(
            "an amount that is none",
            json!({"resources": {"requests": {"cpu": "much"}}}),
        ),
        container("an unknown field in a container", json!({"extra": 1})),
        container(
            "a text where a number belongs",
            json!({"ports": [{"containerPort": "x"}]}),
        ),
        container(
            "a number where a text belongs in a container",
            json!({"image": 7}),
        ),
        container("a text where a list belongs", json!({"command": "x"})),
        with("a restart policy that is none", |pod| {
            pod["spec"]["restartPolicy"] = "Sometimes".into()
        }),
        with("a DNS policy that is none", |pod| {
            pod["spec"]["dnsPolicy"] = "Mine".into()
        }),
        with("two containers of one name", |pod| {
            pod["spec"]["containers"] =
                json!([{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]);
        }),
        with("two volumes of one name", |pod| {
            pod["spec"]["volumes"] = json!([{"name": "a"}, {"name": "a"}])
        }),
        with("a volume without a name", |pod| {
            pod["spec"]["volumes"] = json!([{"emptyDir": {}}])
        }),
        with("a bad host name", |pod| {
            pod["spec"]["hostname"] = "A.b".into()
        }),
        with("a deadline of zero", |pod| {
            pod["spec"]["activeDeadlineSeconds"] = 0.into()
        }),
        with("a service account that is missing", |pod| {
            pod["spec"]["serviceAccountName"] = "nobody".into()
        }),
        with("a priority class that is missing", |pod| {
            pod["spec"]["priorityClassName"] = "none".into()
        }),
    ]
}

fn later() -> Vec<Case> {
    let start = |name: &'static str| case(name).post(core("pods", ""), pod("a"));
    let status = json!({"status": {
        "phase": "Running",
        "podIP": "10.0.0.9",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [{"name": "main", "image": "none:1", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
    }});
    vec![
        start("a pod's labels and annotations change").merge(core("pods", "a"), json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}})),
        start("a pod's image changes").merge(core("pods", "a"), json!({"spec": {"containers": [{"name": "main", "image": "other:1"}]}})),
        start("a pod's deadline shrinks")
            .merge(core("pods", "a"), json!({"spec": {"activeDeadlineSeconds": 9}}))
            .merge(core("pods", "a"), json!({"spec": {"activeDeadlineSeconds": 5}}))
            .merge(core("pods", "a"), json!({"spec": {"activeDeadlineSeconds": 50}})),
        start("a pod's status is written apart").merge(core("pods", "a/status"), status.clone()).get(core("pods", "a/status")),
        start("a write to the pod leaves its status").merge(core("pods", "a"), status.clone()),
        start("a write to the status leaves the spec").merge(core("pods", "a/status"), json!({"spec": {"nodeName": "x"}, "status": {"phase": "Failed"}})),
        start("a strategic write to the status merges conditions")
            .strategic(core("pods", "a/status"), status)
            .strategic(core("pods", "a/status"), json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}})),
        start("a pod is bound").post(core("pods", "a/binding"), json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}})).post(core("pods", "a/binding"), json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "m"}})),
        start("a log of a pod that was never bound").get(core("pods", "a/log")),
        case("a log of nothing").get(core("pods", "a/log")),
        start("a log of a container that is none").get(core("pods", "a/log?container=other")),
        case("a log of one of two")
            .post(core("pods", ""), json!({"metadata": {"name": "a"}, "spec": {"automountServiceAccountToken": false, "containers": [{"name": "one", "image": "x:1"}, {"name": "two", "image": "x:1"}]}}))
            .get(core("pods", "a/log")),
        start("a pod has no scale").get(core("pods", "a/scale")),
    ]
}
