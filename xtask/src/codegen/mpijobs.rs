//! The CRD `mpijobs.kubeflow.org`: its names, columns and subresources, and the schema of
//! everything around the pod templates. A job that was legal for Kubeflow's operator is legal
//! here; what its operator would only have complained about later, or misread, is refused at once,
//! with a message that names the field.

use anyhow::Result;
use serde_json::{Value, json};

use super::{mpijob_rules as rules, pod_template};

/// Name of the CRD.
pub(crate) const NAME: &str = "mpijobs.kubeflow.org";
/// Where it is written, in deploy/.
pub(crate) const FILE: &str = "crds/kubeflow.org_mpijobs.yaml";

/// The whole CRD.
pub(crate) fn crd() -> Result<Value> {
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": NAME,
            "labels": {
                "app": "mpi-operator",
                "app.kubernetes.io/component": "mpijob",
                "app.kubernetes.io/name": "mpi-operator",
                "kustomize.component": "mpi-operator",
            },
        },
        "spec": {
            "group": "kubeflow.org",
            "scope": "Namespaced",
            "names": {
                "kind": "MPIJob",
                "listKind": "MPIJobList",
                "plural": "mpijobs",
                "singular": "mpijob",
                "categories": ["mpi"],
            },
            "versions": [version(Version::V2beta1)?, version(Version::V1)?],
            // The versions have the same fields, so nothing is lost between them.
            "conversion": {"strategy": "None"},
        },
    }))
}

/// A version of the API. Their schemas are the same union of fields; they differ in what the API
/// server fills in, and so in what it notes down as the version that a job was written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V2beta1,
    V1,
}

impl Version {
    fn name(self) -> &'static str {
        match self {
            Self::V2beta1 => "v2beta1",
            Self::V1 => "v1",
        }
    }
}

fn version(version: Version) -> Result<Value> {
    Ok(json!({
        "name": version.name(),
        "served": true,
        "storage": version == Version::V2beta1,
        "additionalPrinterColumns": columns(),
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.mpiReplicaSpecs.Worker.replicas",
                "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            },
        },
        "schema": {"openAPIV3Schema": root(version)?},
    }))
}

fn columns() -> Value {
    let text = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let wide = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path, "priority": 1});
    json!([
        text("State", ".status.muster.phase"),
        text("Ready", ".status.muster.ready"),
        text("Reason", ".status.muster.reason"),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        wide("Dialect", ".status.muster.dialect"),
        wide("Message", ".status.muster.message"),
    ])
}

fn root(version: Version) -> Result<Value> {
    Ok(json!({
        "type": "object",
        "description": "A program that runs under mpirun: one launcher and its workers.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec(version)?,
            "status": status(),
        },
        "x-kubernetes-validations": rules::of_name(),
    }))
}

fn spec(version: Version) -> Result<Value> {
    let mut spec = json!({
        "type": "object",
        "required": ["mpiReplicaSpecs"],
        "properties": {
            "cleanPodPolicy": {
                "type": "string",
                "enum": ["None", "Running", "All"],
                "description": "Where v1 had runPolicy.cleanPodPolicy first; that one wins.",
            },
            "launcherCreationPolicy": {
                "type": "string",
                "default": "AtStartup",
                "enum": ["", "AtStartup", "WaitForWorkersReady"],
                "description": "When the launcher is created: with the workers, or once all of them are Ready.",
            },
            "mainContainer": {
                "type": "string",
                "description": "The container of the workers in which ranks are started; the first one if not set.",
            },
            "mpiImplementation": {
                "type": "string",
                "default": "OpenMPI",
                "enum": ["OpenMPI", "Intel", "MPICH"],
                "description": "Which MPI the program was built for; decides the spelling of the host list and the launcher's variables.",
            },
            "mpiReplicaSpecs": replica_specs()?,
            "muster": muster(version),
            "runLauncherAsWorker": {
                "type": "boolean",
                "default": false,
                "description": "The launcher is an MPI host too, and the first of them.",
            },
            "runPolicy": run_policy(),
            "slotsPerWorker": {
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "default": 1,
                "description": "MPI ranks per worker.",
            },
            "sshAuthMountPath": {
                "type": "string",
                "default": "/root/.ssh",
                "description": "Where the job's SSH key pair is mounted in every pod.",
            },
        },
        "x-kubernetes-validations": rules::of_spec(),
    });
    if version == Version::V1 {
        // A job of v1 reads back as it was written.
        let fields = spec["properties"].as_object_mut();
        for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
            if let Some(field) = field
                .as_object_mut()
                .filter(|field| field["type"] != "object")
            {
                field.remove("default");
            }
        }
    }
    Ok(spec)
}

/// What the API has no field for.
fn muster(version: Version) -> Value {
    let mut muster = muster_fields();
    muster["properties"]["dialect"] = json!({
        "type": "string",
        "default": version.name(),
        "enum": ["v2beta1", "v1"],
        "description": "The API version that the job was written in; filled in by the API server.",
    });
    muster
}

/// What every API has no field for.
pub(super) fn muster_fields() -> Value {
    json!({
        "type": "object",
        "default": {},
        "description": "What the API has no field for.",
        "properties": {
            "census": {
                "type": "string",
                "enum": ["On", "Off"],
                "description": "On: a program that ended well on fewer hosts than there are workers has failed. On if not set; hosts are counted in transport Agent.",
            },
            "gate": {
                "type": "string",
                "enum": ["On", "Off"],
                "description": "On: the launcher's program starts when every worker has answered. On if not set.",
            },
            "sshPort": {
                "type": "integer",
                "format": "int32",
                "minimum": 1,
                "maximum": 65535,
                "description": "Port of the workers' sshd, for the gate; 22 and 2222 are tried if not set.",
            },
            "startupTimeoutSeconds": {
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "description": "The job fails if its program has not started after so many seconds. No limit if not set.",
            },
            "transport": {
                "type": "string",
                "enum": ["SSH", "Agent"],
                "description": "How mpirun reaches the workers: through the image's sshd, or through muster's own agent. The operator's --default-transport if not set.",
            },
            "elastic": {
                "type": "boolean",
                "description": "Whether the program asks for hosts while it runs, so that discover_hosts.sh must follow the pods. Found out from the launcher's command if not set.",
            },
        },
    })
}

fn replica_specs() -> Result<Value> {
    Ok(json!({
        "type": "object",
        "maxProperties": 2,
        "description": "The pods of the job, by role: Launcher and Worker.",
        "additionalProperties": {
            "type": "object",
            "required": ["template"],
            "properties": {
                "replicas": {
                    "type": "integer",
                    "format": "int32",
                    "description": "How many: 1 Launcher, up to 10000 Workers.",
                },
                "restartPolicy": {
                    "type": "string",
                    "enum": ["", "Never", "OnFailure", "Always", "ExitCode"],
                    "description": "What becomes of a container that ended. In v2beta1 Never or OnFailure, and OnFailure for the Launcher if not set; otherwise Never.",
                },
                "template": pod_template::schema()?,
            },
        },
        "x-kubernetes-validations": rules::of_replica_specs(),
    }))
}

fn run_policy() -> Value {
    let count = |format: &str, description: &str| json!({"type": "integer", "format": format, "minimum": 0, "description": description});
    json!({
        "type": "object",
        "properties": {
            "activeDeadlineSeconds": count("int64", "How long the job may be active before it fails."),
            "backoffLimit": count("int32", "How often the launcher is tried again before the job fails."),
            "cleanPodPolicy": {
                "type": "string",
                "enum": ["None", "Running", "All"],
                "description": "Which pods are deleted once the job is over: workers, and in v1 the launcher too. None if not set.",
            },
            "managedBy": {
                "type": "string",
                "description": "The controller that runs the job: kubeflow.org/mpi-operator, or in v1 kubeflow.org/training-operator, if not set; jobs of any other are left alone. Immutable.",
            },
            "schedulingPolicy": {
                "type": "object",
                "description": "What a gang scheduler is told.",
                "properties": {
                    "minAvailable": count("int32", "Pods that must fit at once; the launcher and all workers if not set."),
                    "minResources": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "description": "Resources that must be free, by name or by name under `requests`; computed from the templates if not set.",
                    },
                    "priorityClass": {"type": "string", "description": "Priority class of the group."},
                    "queue": {"type": "string", "description": "Queue of the group."},
                    "scheduleTimeoutSeconds": count("int32", "How long the scheduler may wait for the group."),
                },
            },
            "suspend": {
                "type": "boolean",
                "default": false,
                "description": "The job holds no pods while this is true.",
            },
            "ttlSecondsAfterFinished": count("int32", "How long the launcher's Job, or in v1 the job itself, stays once the job is over."),
        },
    })
}

fn status() -> Value {
    let (time, text) = (time(), text());
    let number = json!({"type": "integer", "format": "int32"});
    json!({
        "type": "object",
        "properties": {
            "completionTime": time,
            "conditions": conditions(
                json!({
                    "lastTransitionTime": time, "lastUpdateTime": time, "message": text,
                    "reason": text, "status": truth(), "type": text,
                }),
                &["status", "type"],
            ),
            "lastReconcileTime": time,
            "muster": muster_status(),
            "observedGeneration": {"type": "integer", "format": "int64"},
            "replicaStatuses": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "active": number, "failed": number, "succeeded": number,
                        "labelSelector": label_selector(), "selector": text,
                    },
                },
            },
            "startTime": time,
        },
    })
}

pub(super) fn muster_status() -> Value {
    let (time, text) = (time(), text());
    json!({
        "type": "object",
        "description": "What muster says of the job, in the same words for every API.",
        "properties": {
            "conditions": conditions(
                json!({
                    "lastTransitionTime": time, "message": text,
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "reason": text, "status": truth(), "type": text,
                }),
                &["lastTransitionTime", "message", "reason", "status", "type"],
            ),
            "dialect": text,
            "finished": {"type": "boolean", "description": "The job is over; phase says how."},
            "message": text,
            "phase": {"type": "string", "description": "Waiting, Suspended, Running, Succeeded or Failed."},
            "ready": {"type": "string", "description": "Workers that are Ready, of those asked for."},
            "startTime": {"type": "string", "format": "date-time", "description": "When the job started, where the API has no other place for it."},
            "replaced": {"type": "string", "description": "UID of the last pod that was made again."},
            "restarts": {"type": "integer", "format": "int32", "description": "Pods that were made again after a failure."},
            "transport": {"type": "string", "description": "How mpirun reaches the workers: SSH or Agent."},
            "reason": {"type": "string", "description": "Why the job waits, or why it failed, in one word."},
        },
    })
}

fn conditions(fields: Value, required: &[&str]) -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": required, "properties": fields},
    })
}

fn label_selector() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": text()},
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": text(),
                        "operator": text(),
                        "values": {"type": "array", "items": text()},
                    },
                },
            },
        },
    })
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn truth() -> Value {
    json!({"type": "string", "enum": ["True", "False", "Unknown"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules<'v>(value: &'v Value, all: &mut Vec<&'v Value>) {
        if let Some(Value::Array(found)) = value.get("x-kubernetes-validations") {
            all.extend(found);
        }
        match value {
            Value::Object(entries) => entries.values().for_each(|entry| rules(entry, all)),
            Value::Array(items) => items.iter().for_each(|item| rules(item, all)),
            _ => {}
        }
    }

    #[test]
    fn every_rule_names_its_field() {
        let crd = crd().unwrap();
        let mut all = Vec::new();
        rules(&crd, &mut all);
        assert_eq!(all.len(), 2 * 13);
        for rule in all {
            let message = rule["message"].as_str().unwrap();
            let path = message.split(": ").next().unwrap();
            assert!(
                path.starts_with("metadata.") || path.starts_with("spec."),
                "{message}"
            );
        }
    }
}
