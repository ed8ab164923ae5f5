//! Kinds with little to fill in or refuse.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};

use super::{defaults, pod};
use crate::status::Cause;
use crate::value::{fill, items, text};

pub(crate) fn default_stateful_set(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "podManagementPolicy", "OrderedReady");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        fill(&mut strategy["rollingUpdate"], "partition", 0);
        fill(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
    }
    fill(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    let policy = &mut spec["persistentVolumeClaimRetentionPolicy"];
    fill(policy, "whenDeleted", "Retain");
    fill(policy, "whenScaled", "Retain");
    defaults::pod_spec(&mut spec["template"]["spec"]);
    fill(object, "status", json!({}));
    fill(&mut object["status"], "replicas", 0);
    fill(&mut object["status"], "availableReplicas", 0);
}

pub(crate) fn validate_stateful_set(
    object: &Value,
    before: Option<&Value>,
    causes: &mut Vec<Cause>,
) {
    let spec = &object["spec"];
    if spec["replicas"].as_i64().is_some_and(|count| count < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.replicas", &spec["replicas"], why));
    }
    if spec["selector"].is_null() {
        causes.push(Cause::required("spec.selector", ""));
        let labels = &spec["template"]["metadata"]["labels"];
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
    }
    pod::validate_template(&spec["template"], "spec.template", causes);
    let Some(before) = before else {
        return;
    };
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        for field in [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ] {
            spec[field] = json!(null);
        }
        spec
    };
    if fixed(spec) != fixed(&before["spec"]) {
        causes.push(Cause::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

pub(crate) fn default_namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    if !text(&name).is_empty() {
        let metadata = &mut object["metadata"];
        fill(metadata, "labels", json!({}));
        metadata["labels"]["kubernetes.io/metadata.name"] = name;
    }
    fill(&mut object["status"], "phase", "Active");
}

/// A Secret: text becomes data.
pub(crate) fn default_secret(object: &mut Value) {
    fill(object, "type", "Opaque");
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let data = fields.entry("data").or_insert_with(|| json!({}));
    for (name, value) in texts {
        data[&name] = BASE64.encode(text(&value)).into();
    }
}

/// As strict as Go, which ignores the bits that padding leaves over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The first value of a Secret that is not base64.
pub(crate) fn bad_base64(object: &Value) -> Option<&str> {
    let data = object["data"].as_object()?;
    data.values()
        .map(text)
        .find(|value| BASE64.decode(value).is_err())
}

fn validate_keys(object: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    for field in fields {
        for key in object[*field]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
        {
            let fits = !key.is_empty()
                && key.len() <= 253
                && key
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            if !fits {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' \
                           or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used \
                           for validation is '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(&format!("{field}[{key}]"), &json!(key), why));
            }
        }
    }
}

fn validate_immutable(
    object: &Value,
    before: Option<&Value>,
    fields: &[&str],
    causes: &mut Vec<Cause>,
) {
    let Some(before) = before.filter(|before| before["immutable"] == true) else {
        return;
    };
    if object["immutable"] != true {
        let why = "field is immutable when `immutable` is set";
        causes.push(Cause::forbidden("immutable", why));
    }
    for field in fields {
        if object[*field] != before[*field] {
            let why = "field is immutable when `immutable` is set";
            causes.push(Cause::forbidden(field, why));
        }
    }
}

pub(crate) fn validate_config_map(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    validate_keys(object, &["data", "binaryData"], causes);
    validate_immutable(object, before, &["data", "binaryData"], causes);
}

pub(crate) fn validate_secret(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    validate_keys(object, &["data"], causes);
    validate_immutable(object, before, &["data"], causes);
    if let Some(before) = before
        && object["type"] != before["type"]
    {
        causes.push(Cause::invalid(
            "type",
            &object["type"],
            "field is immutable",
        ));
    }
}

pub(crate) fn default_binding(object: &mut Value) {
    if object["roleRef"].is_object() {
        fill(
            &mut object["roleRef"],
            "apiGroup",
            "rbac.authorization.k8s.io",
        );
    }
    for subject in defaults::list_mut(object, "subjects") {
        match text(&subject["kind"]) {
            "User" | "Group" => fill(subject, "apiGroup", "rbac.authorization.k8s.io"),
            _ => {}
        }
    }
}

pub(crate) fn validate_binding(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    let role = &object["roleRef"];
    let kinds = [json!("ClusterRole"), json!("Role")];
    if !kinds.contains(&role["kind"]) {
        causes.push(Cause::unsupported(
            "roleRef.kind",
            &json!(text(&role["kind"])),
            &kinds,
        ));
    }
    if text(&role["name"]).is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    for (index, subject) in items(&object["subjects"]).iter().enumerate() {
        if text(&subject["name"]).is_empty() {
            causes.push(Cause::required(&format!("subjects[{index}].name"), ""));
        }
    }
    if let Some(before) = before
        && before["roleRef"] != *role
    {
        let shown = json!({
            "APIGroup": role["apiGroup"],
            "Kind": role["kind"],
            "Name": role["name"],
        });
        causes.push(Cause::invalid("roleRef", &shown, "field is immutable"));
    }
}

pub(crate) fn default_priority_class(object: &mut Value) {
    fill(object, "preemptionPolicy", "PreemptLowerPriority");
    fill(object, "value", 0);
}

pub(crate) fn validate_priority_class(
    object: &Value,
    before: Option<&Value>,
    causes: &mut Vec<Cause>,
) {
    if let Some(before) = before
        && before["value"] != object["value"]
    {
        causes.push(Cause::forbidden(
            "value",
            "may not be changed in an update.",
        ));
    }
}

pub(crate) fn validate_lease(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    for (field, least) in [("leaseDurationSeconds", 1), ("leaseTransitions", 0)] {
        if spec[field].as_i64().is_some_and(|value| value < least) {
            let why = if least == 1 {
                "must be greater than 0"
            } else {
                "must be greater than or equal to 0"
            };
            causes.push(Cause::invalid(&format!("spec.{field}"), &spec[field], why));
        }
    }
}

pub(crate) fn default_network_policy(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    for rules in ["ingress", "egress"] {
        for rule in defaults::list_mut(spec, rules) {
            for port in defaults::list_mut(rule, "ports") {
                fill(port, "protocol", "TCP");
            }
        }
    }
    if items(&spec["policyTypes"]).is_empty() {
        let egress = (!items(&spec["egress"]).is_empty()).then_some("Egress");
        let types: Vec<&str> = std::iter::once("Ingress").chain(egress).collect();
        spec["policyTypes"] = json!(types);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_secrets_becomes_data() {
        let mut secret = json!({"stringData": {"a": "hello", "b": ""}, "data": {"c": "eA=="}});
        default_secret(&mut secret);
        assert_eq!(
            secret,
            json!({"type": "Opaque", "data": {"a": "aGVsbG8=", "b": "", "c": "eA=="}})
        );
        assert_eq!(bad_base64(&secret), None);
        assert!(bad_base64(&json!({"data": {"a": "not base64!"}})).is_some());
    }
}
