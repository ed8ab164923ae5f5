//! What the versions of kubeflow.org's MPIJob share: they are one stored resource, whose fields are
//! the union of theirs, and their clients read one status. Which version a job was written in, and
//! what it then means, is for the dialects.

pub(crate) mod checks;
pub(crate) mod defaults;
pub(crate) mod fields;
pub(crate) mod hub;
mod rules;
pub(crate) mod status;
pub(crate) mod wire;

use serde_json::{Value, json};

use crate::{Dialect, Resource, command};

/// The resource, in these versions.
pub(crate) const fn resource(dialects: &'static [Dialect]) -> Resource {
    Resource {
        group: GROUP,
        version: "v2beta1",
        kind: KIND,
        plural: "mpijobs",
        is_required: true,
        also_makes: &[],
        dialects,
        definition: fields::DEFINITION,
    }
}

/// Suspends a job while it is true.
pub(crate) const SUSPEND_FIELD: &str = "spec.runPolicy.suspend";
const LAUNCHER: &str = "/spec/mpiReplicaSpecs/Launcher";

pub(crate) const GROUP: &str = "kubeflow.org";
pub(crate) const KIND: &str = "MPIJob";
/// Written into owner references, whatever version the job was written in: Kueue matches it
/// exactly.
pub(crate) const API_VERSION: &str = "kubeflow.org/v2beta1";
/// `managedBy` of jobs that are ours.
pub(crate) const MPI_OPERATOR: &str = "kubeflow.org/mpi-operator";
/// `managedBy` of jobs that run in another cluster.
pub(crate) const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";

/// Replaces the command of the launcher's first container.
pub(crate) fn set_command(job: &mut Value, words: &[String]) -> bool {
    command::set_in_template(job, &format!("{LAUNCHER}/template"), words)
}

/// Without these two a launcher is retried six times.
pub(crate) fn set_no_retries(job: &mut Value) -> Vec<&'static str> {
    let mut set = Vec::new();
    command::set_if_absent(job, "/spec", "runPolicy", json!({}));
    if command::set_if_absent(job, "/spec/runPolicy", "backoffLimit", 0.into()) {
        set.push("backoffLimit: 0");
    }
    if command::set_if_absent(job, LAUNCHER, "restartPolicy", "Never".into()) {
        set.push("restartPolicy: Never");
    }
    set
}
