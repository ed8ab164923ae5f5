//! The CRD `mpijobs.batch.test.bdap.com`. Its first edition had no rules at all; these refuse what
//! could never run, each with a message that names the field.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{mpijobs, pod_template};

/// Name of the CRD.
const NAME: &str = "mpijobs.batch.test.bdap.com";
/// Where it is written, in deploy/.
pub(crate) const FILE: &str = "crds/batch.test.bdap.com_mpijobs.yaml";

/// The whole CRD.
pub(crate) fn crd() -> Result<Value> {
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": "muster"}},
        "spec": {
            "group": "batch.test.bdap.com",
            "scope": "Namespaced",
            // No short names: others have `mj` and `mpij`, and this one never had any.
            "names": {
                "kind": "MPIJob",
                "listKind": "MPIJobList",
                "plural": "mpijobs",
                "singular": "mpijob",
                "categories": ["mpi"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns(),
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A program that runs under mpirun or horovodrun, whose workers are reached through the API server.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec()?,
                        "status": status(),
                    },
                    "x-kubernetes-validations": rules(),
                }},
            }],
        },
    }))
}

fn columns() -> Value {
    let column = |name: &str, kind: &str, path: &str, priority: u8| json!({"name": name, "type": kind, "jsonPath": path, "priority": priority});
    json!([
        column("Launcher", "string", ".status.launcher", 0),
        column("Ready", "string", ".status.muster.ready", 0),
        column("Reason", "string", ".status.muster.reason", 0),
        column("Age", "date", ".metadata.creationTimestamp", 0),
        column("Message", "string", ".status.muster.message", 1),
    ])
}

fn template(description: &str) -> Result<Value> {
    let mut template = pod_template::schema()?;
    let policy = template.pointer_mut("/properties/spec/properties/restartPolicy");
    let policy = policy.context("a pod template has spec.restartPolicy")?;
    policy["enum"] = json!(["", "Always", "OnFailure", "Never"]);
    template["description"] = description.into();
    Ok(template)
}

fn spec() -> Result<Value> {
    Ok(json!({
        "type": "object",
        "required": ["numWorkers", "launcherTemplate", "workerTemplate"],
        "properties": {
            "numWorkers": {
                "type": "integer",
                "format": "int32",
                "minimum": 1,
                "maximum": 10_000,
                "description": "How many workers: pods of the StatefulSet, lines of the host list, pods that the launcher may enter.",
            },
            "launcherTemplate": template("The launcher's pod, made when all workers are Ready. A changed template counts when the pod is deleted.")?,
            "workerTemplate": template("The workers' pods. A changed template replaces them, one at a time.")?,
            "muster": {
                "type": "object",
                "description": "What muster offers beyond the API.",
                "properties": {
                    "cleanPodPolicy": {
                        "type": "string",
                        "enum": ["None", "Running", "All"],
                        "description": "Running or All: workers go when the launcher has ended, and come back for another. None if not set.",
                    },
                },
            },
        },
    }))
}

/// A name never changes, so jobs stored before these rules can still be updated.
fn rules() -> Value {
    json!([
        {
            "rule": "oldSelf.hasValue() || self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "optionalOldSelf": true,
            "message": "metadata.name: must be a DNS-1123 label, because hosts are named after it: lower case letters, digits and '-'",
        },
        {
            "rule": "oldSelf.hasValue() || size(self.metadata.name) <= 45",
            "optionalOldSelf": true,
            "message": "metadata.name: must be no more than 45 characters, because the workers' StatefulSet is named after it",
        },
    ])
}

fn status() -> Value {
    let (text, number) = (
        json!({"type": "string"}),
        json!({"type": "integer", "format": "int32"}),
    );
    let time = json!({"type": "string", "format": "date-time"});
    json!({
        "type": "object",
        "properties": {
            "launcher": {"type": "string", "description": "Phase of the launcher's pod; WaitingWorkers before there is one."},
            "readyWorkers": {"type": "integer", "format": "int32", "description": "Workers that are Ready."},
            "workers": {"type": "integer", "format": "int32", "description": "Workers that were asked for."},
            "startTime": time,
            "completionTime": time,
            "observedGeneration": {"type": "integer", "format": "int64"},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {
                        "type": text, "status": text, "reason": text, "message": text,
                        "lastUpdateTime": time, "lastTransitionTime": time,
                    },
                },
            },
            "replicaStatuses": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"active": number, "succeeded": number, "failed": number},
                },
            },
            "muster": mpijobs::muster_status(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_names_its_field() {
        for rule in rules().as_array().expect("rules are a list") {
            let message = rule["message"].as_str().expect("a rule has a message");
            assert!(message.starts_with("metadata.name: "), "{message}");
        }
    }
}
