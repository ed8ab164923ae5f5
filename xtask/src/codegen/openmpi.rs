//! The CRD `openmpis.muster.dev`: the parameters of Kubeflow's ksonnet component `openmpi` with its names
//! and its defaults, of which the string `null` is one. A parameter cannot be changed afterwards, because
//! the pods that it went into cannot; the message names it.

use serde_json::{Map, Value, json};

use super::{mpijobs, pod_template};

/// Name of the CRD.
const NAME: &str = "openmpis.muster.dev";
/// Where it is written, in deploy/.
pub(crate) const FILE: &str = "crds/muster.dev_openmpis.yaml";

/// How the component spelled a parameter that is not set.
const UNSET: &str = "null";
/// Rules need to know how long texts may be.
const TEXT_BYTES_MAX: u32 = 1024;
const COMMAND_BYTES_MAX: u32 = 65_536;
const ITEMS_MAX: u32 = 64;

/// The whole CRD.
pub(crate) fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": "muster"}},
        "spec": {
            "group": "muster.dev",
            "scope": "Namespaced",
            "names": {
                "kind": "OpenMPI",
                "listKind": "OpenMPIList",
                "plural": "openmpis",
                "singular": "openmpi",
                "categories": ["mpi"],
            },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns(),
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "An Open MPI job by the parameters of Kubeflow's ksonnet component openmpi.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec(),
                        "status": status(),
                    },
                    "x-kubernetes-validations": rules_of_name(),
                }},
            }],
        },
    })
}

fn columns() -> Value {
    let column = |name: &str, kind: &str, path: &str, priority: u8| json!({"name": name, "type": kind, "jsonPath": path, "priority": priority});
    json!([
        column("State", "string", ".status.muster.phase", 0),
        column("Ready", "string", ".status.muster.ready", 0),
        column("Reason", "string", ".status.muster.reason", 0),
        column("Age", "date", ".metadata.creationTimestamp", 0),
        column("Image", "string", ".spec.image", 1),
        column("Message", "string", ".status.muster.message", 1),
    ])
}

fn text(default: &str, description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": TEXT_BYTES_MAX, "default": default, "description": description})
}

fn required(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": TEXT_BYTES_MAX, "description": description})
}

/// A string in a pattern, or `null`.
fn patterned(pattern: &str, description: &str) -> Value {
    let mut schema = text(UNSET, description);
    schema["pattern"] = format!("^(null|{pattern})$").into();
    schema
}

/// A whole number, which may be written as a string.
fn number(default: Value, maximum: i64, description: &str) -> Value {
    json!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "minimum": 0,
        "maximum": maximum,
        "maxLength": 10,
        "pattern": "^(null|[0-9]+)$",
        "default": default,
        "description": description,
    })
}

/// An amount of a resource, or `null`.
fn amount(description: &str) -> Value {
    let mut schema = pod_template::quantity();
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    let pattern = pattern
        .trim_start_matches('^')
        .trim_end_matches('$')
        .to_owned();
    schema["pattern"] = format!("^(null|{pattern})$").into();
    schema["maxLength"] = 64.into();
    schema["default"] = UNSET.into();
    schema["description"] = description.into();
    schema
}

fn objects(description: &str) -> Value {
    json!({
        "type": "array",
        "maxItems": ITEMS_MAX,
        "default": [],
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "description": description,
    })
}

/// Parameters that are strings: name, default, description.
const TEXTS: [(&str, &str, &str); 10] = [
    (
        "name",
        UNSET,
        "Name of the component: as metadata.name, or null.",
    ),
    (
        "namespace",
        UNSET,
        "Namespace of the component: as metadata.namespace, or null.",
    ),
    (
        "init",
        UNSET,
        "Path of the script that brings a pod up. /kubeflow/openmpi/assets/init.sh if null.",
    ),
    (
        "exec",
        UNSET,
        "Shell command of the master once every worker answers, for `sh -c`. sleep infinity if null.",
    ),
    (
        "serviceAccountName",
        UNSET,
        "Account of the pods. One that may read pods is made if null.",
    ),
    (
        "schedulerName",
        "default-scheduler",
        "Scheduler of the pods.",
    ),
    (
        "controllerImage",
        "jiez/openmpi-controller:0.0.3",
        "Image of the workers' sidecar. The default stands for muster's agent, which does the same.",
    ),
    (
        "s3Secret",
        UNSET,
        "Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; its entries are the sidecar's environment.",
    ),
    (
        "downloadDataTo",
        UNSET,
        "Path to copy to, below /kubeflow/openmpi/data if relative.",
    ),
    (
        "uploadDataFrom",
        UNSET,
        "Path that each worker copies from after the end.",
    ),
];

/// Parameters that are strings of some form: name, pattern, description.
const PATTERNED: [(&str, &str, &str); 5] = [
    (
        "imagePullSecrets",
        "[a-z0-9]([-a-z0-9.]*[a-z0-9])?(,[a-z0-9]([-a-z0-9.]*[a-z0-9])?)*",
        "Names of Secrets, separated by commas.",
    ),
    (
        "customResources",
        "[^,=]+=[^,]+(,[^,=]+=[^,]+)*",
        "More limits per worker: resource=amount, separated by commas.",
    ),
    (
        "nodeSelector",
        "[^,=]+=[^,]*(,[^,=]+=[^,]*)*",
        "Labels of the workers' nodes: key=value, separated by commas.",
    ),
    (
        "downloadDataFrom",
        "s3://[A-Za-z0-9._-]+(/.*)?",
        "S3 address that each worker copies from before it is ready.",
    ),
    (
        "uploadDataTo",
        "s3://[A-Za-z0-9._-]+(/.*)?",
        "S3 address to copy to; /namespace/name/pod is appended.",
    ),
];

/// Every parameter, as `prototype describe` listed them.
fn parameters() -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |name: &str, schema: Value| drop(all.insert(name.to_owned(), schema));
    put("image", required("Image of master and workers."));
    put(
        "secret",
        required("Existing Secret with id_rsa, id_rsa.pub and authorized_keys."),
    );
    for (name, default, description) in TEXTS {
        put(name, text(default, description));
    }
    for (name, pattern, description) in PATTERNED {
        put(name, patterned(pattern, description));
    }
    let id = |description: &str| number(UNSET.into(), i32::MAX.into(), description);
    let timeout = "Seconds after which initialisation is given up.";
    put("workers", number(4.into(), 10_000, "Worker pods."));
    put("gpu", number(0.into(), 1024, "GPUs per worker."));
    put("initTimeout", number(300.into(), i32::MAX.into(), timeout));
    put("runAsUser", id("User of the pods."));
    put("runAsGroup", id("Group of the pods and of their volumes."));
    let mut groups = id("More groups of the pods, separated by commas.");
    groups["maxLength"] = TEXT_BYTES_MAX.into();
    groups["pattern"] = "^(null|[0-9]+(,[0-9]+)*)$".into();
    put("supplementalGroups", groups);
    put("cpu", amount("CPU limit per worker."));
    put("memory", amount("Memory limit per worker."));
    let mut policy = text("IfNotPresent", "Whether image is pulled.");
    policy["enum"] = json!(["Always", "IfNotPresent", "Never", UNSET]);
    put("imagePullPolicy", policy);
    put("volumes", objects("More volumes of the pods."));
    put("volumeMounts", objects("More mounts of job and sidecar."));
    put(
        "useHostNetwork",
        json!({
            "x-kubernetes-preserve-unknown-fields": true,
            "default": "false",
            "description": "Workers use the network of their node, at most one worker each. true, \"true\" in any case or a number other than 0.",
        }),
    );
    all["exec"]["maxLength"] = COMMAND_BYTES_MAX.into();
    all
}

fn spec() -> Value {
    let parameters = parameters();
    let rules: Vec<Value> = rules()
        .into_iter()
        .chain(unchangeable(&parameters))
        .collect();
    json!({
        "type": "object",
        "required": ["image", "secret"],
        "properties": parameters,
        "x-kubernetes-validations": rules,
    })
}

fn rules() -> Vec<Value> {
    let given = |name: &str| format!("(has(self.{name}) && self.{name} != 'null')");
    let mut rules = vec![
        json!({"rule": "self.image != 'null'", "message": "spec.image: must name the image of master and workers"}),
        json!({"rule": "self.secret != 'null'", "message": "spec.secret: must name a Secret with id_rsa, id_rsa.pub and authorized_keys"}),
    ];
    for (first, second) in [
        ("downloadDataFrom", "downloadDataTo"),
        ("uploadDataTo", "uploadDataFrom"),
    ] {
        rules.push(json!({
            "rule": format!("{} == {}", given(first), given(second)),
            "message": format!("spec.{first}: must stand beside spec.{second}: one without the other copies nothing"),
        }));
        rules.push(json!({
            "rule": format!("!{} || {}", given(first), given("s3Secret")),
            "message": format!("spec.s3Secret: must name the Secret with the keys for spec.{first}"),
        }));
    }
    rules
}

/// Lists are left out: their items have any fields, which rules cannot see.
fn unchangeable(parameters: &Map<String, Value>) -> Vec<Value> {
    let seen =
        |schema: &Value| schema["type"] == "string" || schema["x-kubernetes-int-or-string"] == true;
    let rule = |name: &String| {
        // A word of the rules' own language.
        let field = match name.as_str() {
            "namespace" => "__namespace__",
            other => other,
        };
        json!({
            "rule": format!(
                "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
            ),
            "message": format!("spec.{name}: cannot be changed, as the pods cannot; delete the job and create it again"),
        })
    };
    let parameters = parameters.iter().filter(|(_, schema)| seen(schema));
    parameters.map(|(name, _)| name).map(rule).collect()
}

fn rules_of_name() -> Value {
    json!([
        {
            "rule": "!has(self.metadata.name) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name: must be a DNS label that begins with a letter, because the Service is called by it",
        },
        {
            "rule": "!has(self.metadata.name) || size(self.metadata.name) + size(string(self.spec.workers)) <= 55",
            "message": "metadata.name: is too long, because hosts are called by it: NAME-worker-NUMBER has at most 63 characters",
        },
        {
            "rule": "!has(self.spec.name) || !has(self.metadata.name) || self.spec.name in ['null', self.metadata.name]",
            "message": "spec.name: must be null or as metadata.name",
        },
    ])
}

fn status() -> Value {
    let (text, time) = (
        json!({"type": "string"}),
        json!({"type": "string", "format": "date-time"}),
    );
    let number = json!({"type": "integer", "format": "int32"});
    let counters = json!({"type": "object", "properties": {"active": number, "succeeded": number, "failed": number}});
    json!({
        "type": "object",
        "properties": {
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {
                        "type": text, "status": text, "reason": text, "message": text,
                        "lastTransitionTime": time, "lastUpdateTime": time,
                    },
                },
            },
            "startTime": time,
            "completionTime": time,
            "observedGeneration": {"type": "integer", "format": "int64"},
            "master": counters,
            "workers": counters,
            "muster": mpijobs::muster_status(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_names_its_field() {
        let rules = [spec()["x-kubernetes-validations"].clone(), rules_of_name()];
        for rule in rules.iter().filter_map(Value::as_array).flatten() {
            let message = rule["message"].as_str().expect("a rule has a message");
            let (path, problem) = message.split_once(": ").expect("a path and a problem");
            let known = path.starts_with("spec.") || path == "metadata.name";
            assert!(known && !problem.is_empty(), "{message}");
        }
    }

    #[test]
    fn every_parameter_of_the_component_is_there_with_its_default() {
        let parameters = parameters();
        assert_eq!(parameters.len(), 29);
        for (name, default) in [
            ("workers", json!(4)),
            ("gpu", json!(0)),
            ("cpu", json!("null")),
            ("memory", json!("null")),
            ("nodeSelector", json!("null")),
            ("initTimeout", json!(300)),
            ("imagePullPolicy", json!("IfNotPresent")),
            ("schedulerName", json!("default-scheduler")),
            ("controllerImage", json!("jiez/openmpi-controller:0.0.3")),
            ("volumes", json!([])),
            ("useHostNetwork", json!("false")),
            ("exec", json!("null")),
        ] {
            assert_eq!(parameters[name]["default"], default, "{name}");
        }
    }
}
