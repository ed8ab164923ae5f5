//! What the API server fills into pods and pod templates. Decides nothing that depends on other
//! objects.

use serde_json::{Map, Value, json};

use crate::value::{fill, items, text};

pub(crate) fn pod(object: &mut Value) {
    let ip = object["status"]["podIP"].clone();
    if !ip.is_null() {
        fill(&mut object["status"], "podIPs", json!([{"ip": ip}]));
    }
    if let Some(spec) = object.get_mut("spec") {
        // Only pods themselves: a template may be completed later.
        for list in ["containers", "initContainers"] {
            for container in list_mut(spec, list) {
                requests_from_limits(container);
            }
        }
        pod_spec(spec);
        fill(spec, "enableServiceLinks", true);
    }
}

/// A pod template's spec, or a pod's.
pub(crate) fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "securityContext", json!({}));
    let account = text(&spec["serviceAccountName"]).to_owned();
    let older = text(&spec["serviceAccount"]).to_owned();
    if account.is_empty() && !older.is_empty() {
        spec["serviceAccountName"] = older.into();
    } else if !account.is_empty() {
        spec["serviceAccount"] = account.into();
    }
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for one in list_mut(spec, list) {
            container(one, host_network);
        }
    }
    for volume in list_mut(spec, "volumes") {
        self::volume(volume);
    }
}

/// The items of a list, if there is one.
pub(crate) fn list_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut [Value] {
    match object.get_mut(field) {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    }
}

fn container(one: &mut Value, host_network: bool) {
    fill(one, "terminationMessagePath", "/dev/termination-log");
    fill(one, "terminationMessagePolicy", "File");
    let policy = pull_policy(text(&one["image"]));
    fill(one, "imagePullPolicy", policy);
    for port in list_mut(one, "ports") {
        fill(port, "protocol", "TCP");
        if host_network {
            let number = port["containerPort"].clone();
            fill(port, "hostPort", number);
        }
    }
    for variable in list_mut(one, "env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            fill(reference, "apiVersion", "v1");
        }
        if let Some(reference) = variable.pointer_mut("/valueFrom/resourceFieldRef") {
            fill(reference, "divisor", "0");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = one.get_mut(name) {
            fill(probe, "timeoutSeconds", 1);
            fill(probe, "periodSeconds", 10);
            fill(probe, "successThreshold", 1);
            fill(probe, "failureThreshold", 3);
            http(probe);
        }
    }
    for name in ["postStart", "preStop"] {
        if let Some(handler) = one.pointer_mut(&format!("/lifecycle/{name}")) {
            http(handler);
        }
    }
}

fn http(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet") {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
    if let Some(grpc) = handler.get_mut("grpc") {
        fill(grpc, "service", "");
    }
}

/// An image without a tag, or with `latest`, is always pulled.
fn pull_policy(image: &str) -> &'static str {
    let after_host = image.rsplit('/').next().unwrap_or(image);
    if image.contains('@') {
        return "IfNotPresent";
    }
    match after_host.rsplit_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}

fn volume(volume: &mut Value) {
    let sources = volume.as_object().map_or(0, Map::len);
    if sources <= 1 {
        fill(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            fill(source, "defaultMode", 420);
        }
    }
    if let Some(source) = volume.get_mut("hostPath") {
        fill(source, "type", "");
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        downward(source);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in list_mut(projected, "sources") {
            if let Some(source) = source.get_mut("downwardAPI") {
                downward(source);
            }
            if let Some(token) = source.get_mut("serviceAccountToken") {
                fill(token, "expirationSeconds", 3600);
            }
        }
    }
}

fn downward(source: &mut Value) {
    for item in list_mut(source, "items") {
        if let Some(reference) = item.get_mut("fieldRef") {
            fill(reference, "apiVersion", "v1");
        }
        if let Some(reference) = item.get_mut("resourceFieldRef") {
            fill(reference, "divisor", "0");
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else {
        return;
    };
    for (name, amount) in limits {
        fill(&mut container["resources"], "requests", json!({}));
        fill(&mut container["resources"]["requests"], &name, amount);
    }
}

/// How a pod ranks when its node runs out of something.
pub(crate) fn quality(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let all = items(&spec["containers"])
        .iter()
        .chain(items(&spec["initContainers"]));
    for container in all {
        let resources = &container["resources"];
        for name in ["cpu", "memory"] {
            let (limit, request) = (&resources["limits"][name], &resources["requests"][name]);
            any |= !limit.is_null() || !request.is_null();
            guaranteed &= !limit.is_null() && (request.is_null() || limit == request);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
