//! Pods and pod templates: what is refused. Decides which mistakes the API server would name, as
//! far as users and controllers of ours can make them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::metadata;
use crate::names;
use crate::schema::format;
use crate::status::Cause;
use crate::value::{items, text};

pub(crate) fn validate(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    match before {
        None => validate_spec(&object["spec"], "spec", causes),
        Some(before) => validate_update(object, before, causes),
    }
}

/// A template within another object.
pub(crate) fn validate_template(template: &Value, path: &str, causes: &mut Vec<Cause>) {
    metadata::labels(&template["metadata"], &format!("{path}.metadata"), causes);
    metadata::annotations(&template["metadata"], &format!("{path}.metadata"), causes);
    validate_spec(&template["spec"], &format!("{path}.spec"), causes);
}

fn validate_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let volumes = validate_volumes(spec, path, causes);
    let containers = items(&spec["containers"]);
    if containers.is_empty() {
        causes.push(Cause::required(&format!("{path}.containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            validate_container(container, &path, &volumes, causes);
            let name = text(&container["name"]);
            if !name.is_empty() && !seen.insert(name) {
                causes.push(Cause::duplicate(&format!("{path}.name"), &json!(name)));
            }
        }
    }
    let choices: [(&str, &[&str]); 2] = [
        ("restartPolicy", &["Always", "OnFailure", "Never"]),
        (
            "dnsPolicy",
            &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        ),
    ];
    for (field, choices) in choices {
        if !choices.contains(&text(&spec[field])) {
            let supported: Vec<Value> = choices.iter().map(|choice| json!(choice)).collect();
            let path = format!("{path}.{field}");
            causes.push(Cause::unsupported(&path, &spec[field], &supported));
        }
    }
    for field in ["hostname", "subdomain"] {
        if let Some(value) = spec.get(field)
            && let Some(why) = names::dns_label(text(value))
        {
            causes.push(Cause::invalid(&format!("{path}.{field}"), value, &why));
        }
    }
    for field in ["terminationGracePeriodSeconds", "activeDeadlineSeconds"] {
        let least = i64::from(field == "activeDeadlineSeconds");
        if spec[field].as_i64().is_some_and(|value| value < least) {
            let path = format!("{path}.{field}");
            let why = if least == 1 {
                "must be between 1 and 2147483647, inclusive"
            } else {
                "must be greater than or equal to 0"
            };
            causes.push(Cause::invalid(&path, &spec[field], why));
        }
    }
}

fn validate_volumes(spec: &Value, path: &str, causes: &mut Vec<Cause>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let name = text(&volume["name"]);
        if name.is_empty() {
            causes.push(Cause::required(&format!("{path}.name"), ""));
        } else if let Some(why) = names::dns_label(name) {
            causes.push(Cause::invalid(
                &format!("{path}.name"),
                &volume["name"],
                &why,
            ));
        } else if !seen.insert(name.to_owned()) {
            causes.push(Cause::duplicate(&format!("{path}.name"), &volume["name"]));
        }
        let required = [
            ("/secret/secretName", "secret.secretName"),
            ("/configMap/name", "configMap.name"),
            ("/hostPath/path", "hostPath.path"),
            (
                "/persistentVolumeClaim/claimName",
                "persistentVolumeClaim.claimName",
            ),
        ];
        for (pointer, field) in required {
            let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            let missing = volume
                .pointer(pointer)
                .is_none_or(|value| text(value).is_empty());
            if volume.pointer(parent).is_some() && missing {
                causes.push(Cause::required(&format!("{path}.{field}"), ""));
            }
        }
    }
    seen
}

fn validate_container(
    container: &Value,
    path: &str,
    volumes: &BTreeSet<String>,
    causes: &mut Vec<Cause>,
) {
    let name = text(&container["name"]);
    if name.is_empty() {
        causes.push(Cause::required(&format!("{path}.name"), ""));
    } else if let Some(why) = names::dns_label(name) {
        causes.push(Cause::invalid(
            &format!("{path}.name"),
            &container["name"],
            &why,
        ));
    }
    let image = text(&container["image"]);
    if image.is_empty() {
        causes.push(Cause::required(&format!("{path}.image"), ""));
    } else if image != image.trim() {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(
            &format!("{path}.image"),
            &container["image"],
            why,
        ));
    }
    for (index, variable) in items(&container["env"]).iter().enumerate() {
        if text(&variable["name"]).is_empty() {
            causes.push(Cause::required(&format!("{path}.env[{index}].name"), ""));
        }
        let both = variable.get("valueFrom").is_some() && !text(&variable["value"]).is_empty();
        if both {
            let path = format!("{path}.env[{index}].valueFrom");
            let why = "may not be specified when `value` is not empty";
            causes.push(Cause::invalid(&path, &json!(""), why));
        }
    }
    validate_ports(container, path, causes);
    let mut paths = BTreeSet::new();
    for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let name = text(&mount["name"]);
        if name.is_empty() {
            causes.push(Cause::required(&format!("{path}.name"), ""));
        } else if !volumes.contains(name) {
            causes.push(Cause::not_found(&format!("{path}.name"), &mount["name"]));
        }
        let at = text(&mount["mountPath"]);
        if at.is_empty() {
            causes.push(Cause::required(&format!("{path}.mountPath"), ""));
        } else if !paths.insert(at) {
            let path = format!("{path}.mountPath");
            causes.push(Cause::invalid(&path, &mount["mountPath"], "must be unique"));
        }
    }
    validate_resources(&container["resources"], path, causes);
}

fn validate_ports(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, port) in items(&container["ports"]).iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        match port["containerPort"].as_i64() {
            None | Some(0) => {
                causes.push(Cause::required(&format!("{path}.containerPort"), ""));
            }
            Some(1..=65535) => {}
            Some(_) => {
                let why = "must be between 1 and 65535, inclusive";
                let path = format!("{path}.containerPort");
                causes.push(Cause::invalid(&path, &port["containerPort"], why));
            }
        }
        if !["TCP", "UDP", "SCTP"].contains(&text(&port["protocol"])) {
            let supported = [json!("SCTP"), json!("TCP"), json!("UDP")];
            let path = format!("{path}.protocol");
            causes.push(Cause::unsupported(&path, &port["protocol"], &supported));
        }
    }
}

fn validate_resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    let limits = &resources["limits"];
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let above = limits
            .get(name)
            .is_some_and(|limit| format::amount(text(request)) > format::amount(text(limit)));
        if above {
            let path = format!("{path}.resources.requests");
            let why = format!(
                "must be less than or equal to {name} limit of {}",
                text(&limits[name])
            );
            causes.push(Cause::invalid(&path, request, &why));
        }
    }
}

/// What may change in a pod that exists.
const CHANGEABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn validate_update(object: &Value, before: &Value, causes: &mut Vec<Cause>) {
    let comparable = |object: &Value| {
        let mut spec = object["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in super::defaults::list_mut(&mut spec, list) {
                container["image"] = json!("");
            }
        }
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            spec[field] = json!(null);
        }
        spec
    };
    for (list, field) in [("containers", "image"), ("initContainers", "image")] {
        let (new, old) = (items(&object["spec"][list]), items(&before["spec"][list]));
        if new.len() != old.len() {
            causes.push(Cause::forbidden(
                &format!("spec.{list}"),
                &format!(
                    "pod updates may not add or remove {}",
                    if list == "containers" {
                        "containers"
                    } else {
                        "init containers"
                    }
                ),
            ));
            return;
        }
        for (index, container) in new.iter().enumerate() {
            if text(&container[field]).is_empty() {
                causes.push(Cause::required(
                    &format!("spec.{list}[{index}].{field}"),
                    "",
                ));
            }
        }
    }
    let (old, new) = (
        &before["spec"]["activeDeadlineSeconds"],
        &object["spec"]["activeDeadlineSeconds"],
    );
    if let Some(old) = old.as_i64() {
        let path = "spec.activeDeadlineSeconds";
        match new.as_i64() {
            None => causes.push(Cause::invalid(
                path,
                &json!(null),
                "must not update from a positive integer to nil value",
            )),
            Some(new_value) if new_value > old => {
                let why = "must be less than or equal to previous value";
                causes.push(Cause::invalid(path, new, why));
            }
            Some(_) => {}
        }
    }
    let kept = items(&before["spec"]["tolerations"])
        .iter()
        .all(|one| items(&object["spec"]["tolerations"]).contains(one));
    if !kept || comparable(object) != comparable(before) {
        causes.push(Cause::forbidden("spec", CHANGEABLE));
    }
}
