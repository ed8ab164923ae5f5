//! The CRD `mpijobs.batch.tensorstack.dev`: the three shapes that T9k's manuals have had under one
//! version. What a job of one shape lacks, or has of another, is refused with a message that names
//! the field.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{mpijobs, pod_template};

/// Name of the CRD.
const NAME: &str = "mpijobs.batch.tensorstack.dev";
/// Where it is written, in deploy/.
pub(crate) const FILE: &str = "crds/batch.tensorstack.dev_mpijobs.yaml";

/// Rules over lists need to know how long these may be.
const CONTAINERS_MAX: u32 = 64;
const WORDS_MAX: u32 = 256;
const WORD_BYTES_MAX: u32 = 4096;

/// The whole CRD.
pub(crate) fn crd() -> Result<Value> {
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": "muster"}},
        "spec": {
            "group": "batch.tensorstack.dev",
            "scope": "Namespaced",
            "names": {
                "kind": "MPIJob",
                "listKind": "MPIJobList",
                "plural": "mpijobs",
                "singular": "mpijob",
                "shortNames": ["mj"],
                "categories": ["mpi"],
            },
            "versions": [{
                "name": "v1beta1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns(),
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A program that runs under mpirun, in the shape of the T9k platform.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec()?,
                        "status": status(),
                    },
                }},
            }],
        },
    }))
}

fn columns() -> Value {
    let column = |name: &str, kind: &str, path: &str, priority: u8| json!({"name": name, "type": kind, "jsonPath": path, "priority": priority});
    json!([
        column("Phase", "string", ".status.phase", 0),
        column("Ready", "string", ".status.muster.ready", 0),
        column("Reason", "string", ".status.muster.reason", 0),
        column("Age", "date", ".metadata.creationTimestamp", 0),
        column("Running", "integer", ".status.aggregate.running", 1),
        column("Pending", "integer", ".status.aggregate.pending", 1),
        column("Failed", "integer", ".status.aggregate.failed", 1),
        column("Message", "string", ".status.muster.message", 1),
    ])
}

fn words(description: &str) -> Value {
    json!({
        "type": "array",
        "maxItems": WORDS_MAX,
        "items": {"type": "string", "maxLength": WORD_BYTES_MAX},
        "description": description,
    })
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn truth(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn count(minimum: u32, maximum: u32, description: &str) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": minimum, "maximum": maximum, "description": description})
}

fn texts(description: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description})
}

/// A pod template; `whole` where it must have a container.
fn template(whole: bool) -> Result<Value> {
    let mut template = pod_template::schema()?;
    let spec = template.pointer_mut("/properties/spec");
    let spec = spec.context("a pod template has a spec")?;
    let containers = &mut spec["properties"]["containers"];
    containers["maxItems"] = CONTAINERS_MAX.into();
    containers["items"]["properties"]["name"]["maxLength"] = 63.into();
    if !whole {
        containers["minItems"] = 0.into();
        spec["required"] = json!([]);
        template["required"] = json!([]);
        for part in ["/properties/spec", ""] {
            let part = template.pointer_mut(part).and_then(Value::as_object_mut);
            part.context("a schema is an object")?.remove("required");
        }
    }
    Ok(template)
}

fn spec() -> Result<Value> {
    Ok(json!({
        "type": "object",
        "properties": {
            "worker": worker()?,
            "mca": texts("MCA parameters of Open MPI, by name."),
            "mpiHome": text("Root of the Open MPI installation, in which mpirun and its daemons are found."),
            "mpiConfig": {
                "type": "object",
                "description": "What to run; beside replicaSpecs, instead of worker.",
                "properties": {
                    "mca": texts("MCA parameters of Open MPI, by name."),
                    "home": text("Root of the Open MPI installation."),
                    "extraArgs": words("Further words for mpirun, in order."),
                    "script": words("What every process runs."),
                },
            },
            "replicaSpecs": {
                "type": "array",
                "maxItems": 2,
                "description": "The replicas by type; beside mpiConfig, instead of worker.",
                "items": {
                    "type": "object",
                    "required": ["type"],
                    "properties": {
                        "type": {"type": "string", "enum": ["launcher", "worker"]},
                        "replicas": count(1, 10_000, "How many: 1 launcher, 1 to 10000 workers."),
                        "restartPolicy": {
                            "type": "object",
                            "properties": {
                                "policy": {"type": "string", "enum": ["Always", "OnFailure", "Never"]},
                                "limit": {"type": "integer", "format": "int32", "minimum": 0, "description": "How often containers are started again; never if not set."},
                            },
                        },
                        "template": template(false)?,
                    },
                },
            },
            "ssh": {
                "type": "object",
                "properties": {
                    "sshAuthMountPath": {"type": "string", "pattern": "^/", "description": "Where the job's key pair is mounted; /root/.ssh if not set."},
                    "authMountPath": {"type": "string", "pattern": "^/", "description": "The same, as a sister kind spells it."},
                    "sshdPath": {"type": "string", "pattern": "^/", "description": "Absolute path of sshd; /usr/sbin/sshd if not set."},
                },
            },
            "runPolicy": {
                "type": "object",
                "properties": {"cleanUpWorkers": truth("Workers are deleted once the job is over.")},
            },
            "scheduler": {
                "type": "object",
                "properties": {"t9kScheduler": {
                    "type": "object",
                    "required": ["queue"],
                    "properties": {"queue": text("Queue."), "priority": count(0, 100, "Priority in the queue.")},
                }},
            },
            "runMode": run_mode(),
            "muster": mpijobs::muster_fields(),
        },
        "x-kubernetes-validations": rules(),
    }))
}

fn worker() -> Result<Value> {
    Ok(json!({
        "type": "object",
        "required": ["template"],
        "description": "The workers, and the environment of the launcher.",
        "properties": {
            "replicas": count(1, 10_000, "How many; 1 if not set."),
            "extraMPIArgs": words("Further words for mpirun, in order."),
            "cmd": words("What every process runs."),
            "template": template(true)?,
            "processesPerWorker": count(1, 65_535, "Processes per worker; extraMPIArgs replaced it."),
            "processRecovery": {
                "type": "object",
                "description": "Whether Open MPI starts failed processes again; extraMPIArgs replaced it.",
                "properties": {
                    "enable": {"type": "boolean"},
                    "limit": {"type": "integer", "format": "int32", "minimum": 0},
                },
            },
        },
    }))
}

fn run_mode() -> Value {
    let overrides = |description: &str| {
        json!({
            "type": "array",
            "maxItems": 2,
            "description": description,
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"type": "string", "enum": ["launcher", "worker"]},
                    "skipInitContainer": truth("The replica has no init containers then."),
                    "command": words("The command of the replica then."),
                    "args": words("The arguments of the replica then."),
                },
            },
        })
    };
    json!({
        "type": "object",
        "properties": {
            "debug": {
                "type": "object",
                "description": "The pods come up, and nothing is started in them.",
                "properties": {
                    "enabled": {"type": "boolean"}, "enable": {"type": "boolean"},
                    "replicaSpecs": overrides("What replicas of a type run instead."),
                },
            },
            "pause": {
                "type": "object",
                "description": "The job has no pods; may be changed at any time.",
                "properties": {
                    "enabled": {"type": "boolean"}, "enable": {"type": "boolean"},
                    "resumeSpecs": overrides("How replicas of a type start again. Immutable."),
                },
            },
        },
    })
}

fn rules() -> Value {
    let resume = |object: &str| {
        let pause = format!("{object}.runMode.pause");
        format!(
            "(has({object}.runMode) && has({pause}) && has({pause}.resumeSpecs) ? {pause}.resumeSpecs : [])"
        )
    };
    json!([
        {
            "rule": "has(self.worker) || has(self.mpiConfig) || has(self.replicaSpecs)",
            "message": "spec.worker: must describe the workers",
        },
        {
            "rule": "!has(self.worker) || !(has(self.mpiConfig) || has(self.replicaSpecs))",
            "message": "spec.worker: must not stand beside spec.mpiConfig or spec.replicaSpecs, which replaced it",
        },
        {
            "rule": "has(self.mpiConfig) == has(self.replicaSpecs)",
            "message": "spec.mpiConfig: must stand beside spec.replicaSpecs",
        },
        {
            "rule": "!has(self.mpiConfig) || !(has(self.mca) || has(self.mpiHome))",
            "message": "spec.mca: like spec.mpiHome, must not stand beside spec.mpiConfig, which replaced them",
        },
        {
            "rule": "!has(self.worker) || !has(self.worker.extraMPIArgs) || !(has(self.worker.processesPerWorker) || has(self.worker.processRecovery))",
            "message": "spec.worker.extraMPIArgs: must not stand beside processesPerWorker or processRecovery, which it replaced",
        },
        {
            "rule": "!has(self.worker) || self.worker.template.spec.containers.exists(container, container.name == 'mpi-worker')",
            "message": "spec.worker.template.spec.containers: must hold a container named \"mpi-worker\"",
        },
        {
            "rule": "!has(self.worker) || has(self.worker.cmd) || (has(self.runMode) && has(self.runMode.debug))",
            "message": "spec.worker.cmd: must say what every process runs",
        },
        {
            "rule": "!has(self.replicaSpecs) || self.replicaSpecs.exists_one(replica, replica.type == 'worker')",
            "message": "spec.replicaSpecs: must have one entry of type worker",
        },
        {
            "rule": format!("{} == {}", resume("self"), resume("oldSelf")),
            "message": "spec.runMode.pause.resumeSpecs: is immutable",
        },
    ])
}

fn status() -> Value {
    let (text, number) = (
        json!({"type": "string"}),
        json!({"type": "integer", "format": "int32"}),
    );
    let counters = [
        "creating",
        "deleted",
        "failed",
        "pending",
        "running",
        "succeeded",
        "unknown",
    ];
    let counters: serde_json::Map<String, Value> = counters
        .into_iter()
        .map(|counter| (counter.to_owned(), number.clone()))
        .collect();
    json!({
        "type": "object",
        "properties": {
            "phase": {"type": "string", "description": "Pending, Running, Paused, Resuming, Succeeded, Failed or Unknown."},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {
                        "type": text, "status": text, "reason": text, "message": text,
                        "lastTransitionTime": {"type": "string", "format": "date-time"},
                    },
                },
            },
            "tasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "type": text,
                        "restartCount": number,
                        "status": {"type": "array", "items": {
                            "type": "object",
                            "properties": {
                                "phase": text, "name": text, "uid": text,
                                "containers": {"type": "array", "items": {
                                    "type": "object",
                                    "properties": {"containerPhase": text, "exitCode": number},
                                }},
                            },
                        }},
                    },
                },
            },
            "aggregate": {"type": "object", "properties": counters},
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
            let (path, problem) = message.split_once(": ").expect("a path and a problem");
            assert!(
                path.starts_with("spec.") && !problem.is_empty(),
                "{message}"
            );
        }
    }
}
