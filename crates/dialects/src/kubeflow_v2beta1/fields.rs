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
        => "Which workers are deleted when the job is over: None, Running (those that still run) or All. None if not set.";
    Honoured "spec.runPolicy.ttlSecondsAfterFinished": COUNT, "60"
        => "How many seconds the launcher's Job stays after the job is over. It stays if not set.";
    Honoured "spec.runPolicy.backoffLimit": COUNT, "2"
        => "How often the launcher is retried before the job fails. 6 if not set.";
    Routes "spec.runPolicy.managedBy": TEXT, r#""kueue.x-k8s.io/multikueue""#
        => "The controller that runs the job: kubeflow.org/mpi-operator if not set. muster leaves jobs of any other controller alone. Immutable.";
    Honoured "spec.muster.transport": TRANSPORT, r#""Agent""#
        => "How mpirun reaches the workers: SSH, through the image's sshd, or Agent, through muster's agent. The operator's --default-transport if not set.";
    "spec.launcherCreationPolicy": TEXT.or(Text("AtStartup")) => "";
    "spec.mpiImplementation": TEXT.or(Text("OpenMPI")) => "";
    "spec.runLauncherAsWorker": BOOLEAN.or(Boolean(false)) => "";
    "spec.slotsPerWorker": INT32.or(Number(1)) => "";
    "spec.sshAuthMountPath": TEXT.or(Text("/root/.ssh")) => "";
};
