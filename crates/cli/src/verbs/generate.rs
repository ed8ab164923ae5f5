//! `muster generate openmpi|mpijob NAME …`: a job made from flags.

use anyhow::Result;
use dialects::openmpi_v1alpha1::RESOURCE;
use serde_json::{Value, json};

use crate::args::generate::MpiJob;
use crate::args::{Generate, GenerateArgs, Global};
use crate::exit::Failure;
use crate::{manifest, out, yaml};

pub(crate) fn run(global: &Global, args: &GenerateArgs) -> Result<u8> {
    let mut object = match &args.what {
        Generate::Openmpi(parameters) => json!({
            "apiVersion": format!("{}/{}", RESOURCE.group, RESOURCE.version),
            "kind": RESOURCE.kind,
            "metadata": {"name": parameters.name},
            "spec": parameters.spec,
        }),
        Generate::Mpijob(job) => mpi_job(job),
    };
    if let Some(namespace) = &global.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    if let Some(Err(errors)) = manifest::lower(&object) {
        return Err(Failure::usage(dialects::aggregate(&errors)).into());
    }
    out::data(&yaml::text(&object));
    Ok(0)
}
fn mpi_job(given: &MpiJob) -> Value {
    let template = |container: Value| json!({"spec": {"containers": [container]}});
    json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": given.name},
        "spec": {
            "slotsPerWorker": given.slots,
            "mpiImplementation": given.mpi,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "template": template(json!({
                        "name": "launcher", "image": given.image, "command": given.command,
                    })),
                },
                "Worker": {
                    "replicas": given.workers,
                    "template": template(json!({"name": "worker", "image": given.image})),
                },
            },
        },
    })
}
