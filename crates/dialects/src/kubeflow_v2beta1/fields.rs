//! The fields that v2beta1 has its own idea of, and the defaults that the API server writes into its
//! jobs.

use crate::field::Literal::{Boolean, Number, Text};
use crate::field::{BOOLEAN, Field, INT32, TEXT, fields};
use crate::kubeflow::fields::{CLEAN_POD_POLICY, COUNT, RESTART_POLICY};
use crate::muster_fields::TRANSPORT;

/// The list.
pub(super) const FIELDS: &[Field] = fields! {
    Honoured "spec.mpiReplicaSpecs[Worker].replicas": INT32, "3" => "How many workers: 1 to 10000.";
    Honoured "spec.mpiReplicaSpecs[Launcher].restartPolicy": RESTART_POLICY, r#""Never""#
        => "Never or OnFailure. OnFailure if not set.";
    Honoured "spec.mpiReplicaSpecs[Worker].restartPolicy": RESTART_POLICY, r#""OnFailure""#
        => "Never or OnFailure. Never if not set.";
    Honoured "spec.runPolicy.cleanPodPolicy": CLEAN_POD_POLICY, r#""Running""#
        => "Which workers muster deletes when the job is over: None, Running (those that still run) or All. None if not set.";
    Honoured "spec.runPolicy.ttlSecondsAfterFinished": COUNT, "60"
        => "Kubernetes deletes the launcher's Job this many seconds after the job is over. Never if not set.";
    Honoured "spec.runPolicy.backoffLimit": COUNT, "2"
        => "How many times the launcher is retried before the job fails. 6 if not set.";
    Routes "spec.runPolicy.managedBy": TEXT, r#""kueue.x-k8s.io/multikueue""#
        => "The controller that runs the job: kubeflow.org/mpi-operator, or not set. muster ignores jobs with any other value. Immutable.";
    Honoured "spec.muster.transport": TRANSPORT, r#""Agent""#
        => "How mpirun reaches the workers: SSH, through the image's sshd, or Agent, through muster's agent. The operator's --default-transport if not set. Cannot be changed.";
    "spec.launcherCreationPolicy": TEXT.or(Text("AtStartup")) => "";
    "spec.mpiImplementation": TEXT.or(Text("OpenMPI")) => "";
    "spec.runLauncherAsWorker": BOOLEAN.or(Boolean(false)) => "";
    "spec.slotsPerWorker": INT32.or(Number(1)) => "";
    "spec.sshAuthMountPath": TEXT.or(Text("/root/.ssh")) => "";
};
