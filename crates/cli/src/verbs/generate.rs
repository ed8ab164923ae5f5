//! `muster generate openmpi|mpijob NAME …`: a job made from flags. Decides which flag becomes which
//! field; the parameters of `openmpi` are those of the ksonnet component, name for name.

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::args::{Generate, GenerateArgs, Global};
use crate::exit::Failure;
use crate::{out, yaml};

/// Parameters of the ksonnet component; only those given are written.
#[derive(Debug, Args)]
#[command(rename_all = "camelCase")]
pub(crate) struct OpenMpi {
    /// Name of the job
    name: String,
    /// Image of master and workers
    #[arg(long)]
    image: String,
    /// Secret with id_rsa, id_rsa.pub and authorized_keys
    #[arg(long)]
    secret: String,
    /// Worker pods
    #[arg(long)]
    workers: Option<u32>,
    /// Path of the bootstrap script
    #[arg(long)]
    init: Option<String>,
    /// Shell command that the master runs
    #[arg(long)]
    exec: Option<String>,
    /// IfNotPresent or Always
    #[arg(long)]
    image_pull_policy: Option<String>,
    /// Names of Secrets, separated by commas
    #[arg(long)]
    image_pull_secrets: Option<String>,
    /// GPUs per worker
    #[arg(long)]
    gpu: Option<u32>,
    /// CPU limit per worker
    #[arg(long)]
    cpu: Option<String>,
    /// Memory limit per worker
    #[arg(long)]
    memory: Option<String>,
    /// More limits: resource=amount, separated by commas
    #[arg(long)]
    custom_resources: Option<String>,
    /// Service account of the pods
    #[arg(long)]
    service_account_name: Option<String>,
    /// Scheduler of the pods
    #[arg(long)]
    scheduler_name: Option<String>,
    /// Image of the workers' sidecar
    #[arg(long)]
    controller_image: Option<String>,
    /// Seconds in which the workers must come up
    #[arg(long)]
    init_timeout: Option<u32>,
    /// Labels of nodes: key=value, separated by commas
    #[arg(long)]
    node_selector: Option<String>,
    /// Secret with the keys for S3
    #[arg(long)]
    s3_secret: Option<String>,
    /// S3 address to copy from
    #[arg(long)]
    download_data_from: Option<String>,
    /// Path to copy to
    #[arg(long)]
    download_data_to: Option<String>,
    /// Path to copy from at the end
    #[arg(long)]
    upload_data_from: Option<String>,
    /// S3 address to copy to at the end
    #[arg(long)]
    upload_data_to: Option<String>,
    /// User of the pods
    #[arg(long)]
    run_as_user: Option<String>,
    /// Group of the pods
    #[arg(long)]
    run_as_group: Option<String>,
    /// More groups, separated by commas
    #[arg(long)]
    supplemental_groups: Option<String>,
    /// More volumes of the pods, as a list in JSON
    #[arg(long, value_parser = list)]
    volumes: Option<Value>,
    /// More mounts of job and sidecar, as a list in JSON
    #[arg(long, value_parser = list)]
    volume_mounts: Option<Value>,
    /// Workers use the network of their node
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    use_host_network: Option<String>,
}

/// The usual MPIJob.
#[derive(Debug, Args)]
pub(crate) struct MpiJob {
    /// Name of the job
    name: String,
    /// Image of launcher and workers
    #[arg(long)]
    image: String,
    /// Workers
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Ranks per worker
    #[arg(long, default_value_t = 1)]
    slots: u32,
    /// OpenMPI, MPICH or Intel
    #[arg(long, default_value = "OpenMPI", value_parser = ["OpenMPI", "MPICH", "Intel"])]
    mpi: String,
    /// What the launcher runs
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) fn run(global: &Global, args: &GenerateArgs) -> Result<u8> {
    let mut object = match &args.what {
        Generate::Openmpi(parameters) => open_mpi(parameters),
        Generate::Mpijob(job) => mpi_job(job),
    };
    let name = crate::manifest::name(&object);
    if !is_label(name) {
        let text = format!(
            "{name:?} is no name for a job: lower case letters, digits and -, beginning with a letter"
        );
        return Err(Failure::usage(text).into());
    }
    if let Some(namespace) = &global.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    out::data(&yaml::text(&object));
    Ok(0)
}

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= 63
        && name.bytes().all(inner)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
}

fn list(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value.is_array() {
        Ok(value)
    } else {
        Err("it must be a list, such as [{\"name\": \"scratch\", \"emptyDir\": {}}]".to_owned())
    }
}

fn open_mpi(given: &OpenMpi) -> Value {
    let mut spec = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            spec.insert(name.to_owned(), value);
        }
    };
    let text = |value: &Option<String>| value.as_deref().map(Value::from);
    put("image", Some(given.image.as_str().into()));
    put("secret", Some(given.secret.as_str().into()));
    put("workers", given.workers.map(Value::from));
    put("init", text(&given.init));
    put("exec", text(&given.exec));
    put("imagePullPolicy", text(&given.image_pull_policy));
    put("imagePullSecrets", text(&given.image_pull_secrets));
    put("gpu", given.gpu.map(Value::from));
    put("cpu", text(&given.cpu));
    put("memory", text(&given.memory));
    put("customResources", text(&given.custom_resources));
    put("serviceAccountName", text(&given.service_account_name));
    put("schedulerName", text(&given.scheduler_name));
    put("controllerImage", text(&given.controller_image));
    put("initTimeout", given.init_timeout.map(Value::from));
    put("nodeSelector", text(&given.node_selector));
    put("s3Secret", text(&given.s3_secret));
    put("downloadDataFrom", text(&given.download_data_from));
    put("downloadDataTo", text(&given.download_data_to));
    put("uploadDataFrom", text(&given.upload_data_from));
    put("uploadDataTo", text(&given.upload_data_to));
    put("runAsUser", text(&given.run_as_user));
    put("runAsGroup", text(&given.run_as_group));
    put("supplementalGroups", text(&given.supplemental_groups));
    put("volumes", given.volumes.clone());
    put("volumeMounts", given.volume_mounts.clone());
    put("useHostNetwork", text(&given.use_host_network));
    json!({
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "OpenMPI",
        "metadata": {"name": given.name},
        "spec": spec,
    })
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
