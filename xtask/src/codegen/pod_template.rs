//! The structural schema of a pod template: the one of the Kubernetes API, with every reference
//! inlined and without descriptions, plus what its Rust types do not have (list keys, defaults, atomic
//! maps). Knows nothing of jobs.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

const REFERENCE: &str = "#/$defs/";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Lists that are maps by key: server-side apply merges them item by item, and the API server
/// refuses two items with one key. By type, field, keys.
const LIST_MAPS: [(&str, &str, &[&str]); 19] = [
    ("PodSpec", "containers", &["name"]),
    ("PodSpec", "ephemeralContainers", &["name"]),
    ("PodSpec", "evictionResponders", &["name"]),
    ("PodSpec", "hostAliases", &["ip"]),
    ("PodSpec", "imagePullSecrets", &["name"]),
    ("PodSpec", "initContainers", &["name"]),
    ("PodSpec", "resourceClaims", &["name"]),
    ("PodSpec", "schedulingGates", &["name"]),
    (
        "PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("PodSpec", "volumes", &["name"]),
    ("ResourceRequirements", "claims", &["name"]),
    ("Container", "env", &["name"]),
    ("Container", "ports", &["containerPort", "protocol"]),
    ("Container", "volumeDevices", &["devicePath"]),
    ("Container", "volumeMounts", &["mountPath"]),
    ("EphemeralContainer", "env", &["name"]),
    (
        "EphemeralContainer",
        "ports",
        &["containerPort", "protocol"],
    ),
    ("EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("EphemeralContainer", "volumeMounts", &["mountPath"]),
];

/// Lists that are sets.
const LIST_SETS: [(&str, &str); 2] = [
    ("ContainerRestartRuleOnExitCodes", "values"),
    ("VolumeMount", "bindMountOptions"),
];

/// Objects that server-side apply replaces whole.
const ATOMIC: [&str; 11] = [
    "ConfigMapKeySelector",
    "EvictionResponder",
    "FileKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ResourceFieldSelector",
    "SecretKeySelector",
    "TypedLocalObjectReference",
];

/// Defaults that the API server sets, so that a list key is never missing and a job reads back as it
/// always has.
fn defaults() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("ConfigMapEnvSource", "name", json!("")),
        ("ConfigMapKeySelector", "name", json!("")),
        ("ConfigMapProjection", "name", json!("")),
        ("ConfigMapVolumeSource", "name", json!("")),
        ("LocalObjectReference", "name", json!("")),
        ("SecretEnvSource", "name", json!("")),
        ("SecretKeySelector", "name", json!("")),
        ("SecretProjection", "name", json!("")),
        ("FileKeySelector", "optional", json!(false)),
        ("GRPCAction", "service", json!("")),
        ("ContainerPort", "protocol", json!("TCP")),
        ("AzureDiskVolumeSource", "fsType", json!("ext4")),
        ("AzureDiskVolumeSource", "readOnly", json!(false)),
        ("ISCSIVolumeSource", "iscsiInterface", json!("default")),
        ("RBDVolumeSource", "keyring", json!("/etc/ceph/keyring")),
        ("RBDVolumeSource", "pool", json!("rbd")),
        ("RBDVolumeSource", "user", json!("admin")),
        ("ScaleIOVolumeSource", "fsType", json!("xfs")),
        (
            "ScaleIOVolumeSource",
            "storageMode",
            json!("ThinProvisioned"),
        ),
    ]
}

/// The schema of a pod template with at least one container.
pub(crate) fn schema() -> Result<Value> {
    let root = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<PodTemplateSpec>();
    let definitions = root.get("$defs").and_then(Value::as_object);
    let definitions = definitions.context("the types of a pod template come with definitions")?;
    let mut template = Inliner { definitions }.inlined(root.as_value(), "PodTemplateSpec")?;
    template["required"] = json!(["spec"]);
    let containers = template
        .pointer_mut("/properties/spec/properties/containers")
        .context("a pod template has spec.containers")?;
    containers["minItems"] = 1.into();
    Ok(template)
}

/// A number, or text in the grammar of quantities. The API server compares the pattern with
/// numbers too, in their shortest spelling.
pub(crate) fn quantity() -> Value {
    json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

/// The metadata that a template may set; the controller sets the rest.
fn metadata() -> Value {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "annotations": strings,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": strings,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    })
}

struct Inliner<'a> {
    definitions: &'a Map<String, Value>,
}

impl Inliner<'_> {
    /// The schema without references. `type_name` is the type it belongs to, for the marks.
    fn inlined(&self, schema: &Value, type_name: &str) -> Result<Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.referred(reference);
        }
        let mut out = Map::new();
        for (keyword, value) in schema.as_object().context("a schema is an object")? {
            match keyword.as_str() {
                "description" | "title" | "$schema" | "$defs" => {}
                "type" | "format" | "required" => {
                    out.insert(keyword.clone(), value.clone());
                }
                "x-kubernetes-int-or-string" => {
                    out.insert(
                        "anyOf".to_owned(),
                        json!([{"type": "integer"}, {"type": "string"}]),
                    );
                    out.insert(keyword.clone(), value.clone());
                }
                "items" | "additionalProperties" => {
                    out.insert(keyword.clone(), self.inlined(value, "")?);
                }
                "properties" => {
                    let fields = value.as_object().context("properties are an object")?;
                    let fields = fields
                        .iter()
                        .map(|(name, field)| Ok((name.clone(), self.inlined(field, "")?)));
                    out.insert(
                        keyword.clone(),
                        fields.collect::<Result<Map<_, _>>>()?.into(),
                    );
                }
                other => bail!("keyword `{other}` of {type_name} is new: handle it in codegen"),
            }
        }
        mark(&mut out, type_name)?;
        Ok(Value::Object(out))
    }

    fn referred(&self, reference: &str) -> Result<Value> {
        let name = reference
            .strip_prefix(REFERENCE)
            .with_context(|| format!("{reference} does not refer to a definition"))?;
        match name {
            QUANTITY => return Ok(quantity()),
            OBJECT_META => return Ok(metadata()),
            _ => {}
        }
        let definition = self.definitions.get(name);
        let definition = definition.with_context(|| format!("{name} is not defined"))?;
        let type_name = name.rsplit('.').next().unwrap_or(name);
        self.inlined(definition, type_name)
            .with_context(|| format!("cannot inline the schema of {type_name}"))
    }
}

/// Adds to the schema of a type what its Rust type does not have.
fn mark(schema: &mut Map<String, Value>, type_name: &str) -> Result<()> {
    if ATOMIC.contains(&type_name) {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    for (_, field, keys) in LIST_MAPS.iter().filter(|(owner, _, _)| *owner == type_name) {
        let list = property(schema, type_name, field)?;
        list["x-kubernetes-list-type"] = "map".into();
        list["x-kubernetes-list-map-keys"] = json!(keys);
    }
    for (_, field) in LIST_SETS.iter().filter(|(owner, _)| *owner == type_name) {
        property(schema, type_name, field)?["x-kubernetes-list-type"] = "set".into();
    }
    if type_name == "PodSpec" {
        property(schema, type_name, "nodeSelector")?["x-kubernetes-map-type"] = "atomic".into();
    }
    for (_, field, value) in defaults()
        .iter()
        .filter(|(owner, _, _)| *owner == type_name)
    {
        property(schema, type_name, field)?["default"] = value.clone();
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name != field);
        }
    }
    if schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
    {
        schema.remove("required");
    }
    Ok(())
}

fn property<'s>(
    schema: &'s mut Map<String, Value>,
    type_name: &str,
    field: &str,
) -> Result<&'s mut Value> {
    let properties = schema.get_mut("properties");
    properties
        .and_then(|properties| properties.get_mut(field))
        .with_context(|| format!("{type_name} has no field {field} any more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'v>(schema: &'v Value, path: &str) -> &'v Value {
        let pointer = path.replace('.', "/properties/").replace("*", "items");
        schema
            .pointer(&pointer)
            .unwrap_or_else(|| panic!("{pointer} is missing"))
    }

    #[test]
    fn marks_are_where_they_belong() {
        let schema = schema().unwrap();
        let containers = at(&schema, ".spec.containers");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(containers["minItems"], 1);
        let port = at(&schema, ".spec.containers/*.ports/*");
        assert_eq!(port["properties"]["protocol"]["default"], "TCP");
        let limits = at(&schema, ".spec.containers/*.resources.limits");
        assert_eq!(limits["additionalProperties"], quantity());
        let metadata = at(&schema, ".metadata")["properties"].as_object().unwrap();
        assert_eq!(metadata.len(), 5);
    }

    #[test]
    fn nothing_refers_and_nothing_describes() {
        let text = schema().unwrap().to_string();
        assert!(!text.contains("$ref") && !text.contains("\"description\":\""));
    }
}
