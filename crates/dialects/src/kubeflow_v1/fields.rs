//! The fields that v1 has its own idea of. The API server writes no defaults into jobs of v1: its clients
//! compare what they read with what they wrote.

use crate::field::{Field, INT32, TEXT, fields};
use crate::kubeflow::fields::{CLEAN_POD_POLICY, COUNT, RESTART_POLICY};
use crate::muster_fields::TRANSPORT;

/// The list.
pub(super) const FIELDS: &[Field] = fields! {
    Honoured "spec.mpiReplicaSpecs[Worker].replicas": INT32, "3"
        => "How many workers: 0 to 10000. None if not set.";
    Honoured "spec.mpiReplicaSpecs[Launcher].restartPolicy": RESTART_POLICY, r#""ExitCode""#
        => "Never, OnFailure, Always (the same as OnFailure) or ExitCode (replaces a pod whose exit code is above 127). Never if not set.";
    Honoured "spec.mpiReplicaSpecs[Worker].restartPolicy": RESTART_POLICY, r#""Always""#
        => "Never, OnFailure, Always or ExitCode (replaces a pod whose exit code is above 127). Never if not set.";
    Honoured "spec.runPolicy.cleanPodPolicy": CLEAN_POD_POLICY, r#""Running""#
        => "Which pods muster deletes when the job is over, including the launcher's: None, Running (those that still run) or All. None if not set.";
    Honoured "spec.runPolicy.ttlSecondsAfterFinished": COUNT, "60"
        => "muster deletes the MPIJob this many seconds after it is over. Never if not set.";
    Honoured "spec.runPolicy.backoffLimit": COUNT, "2"
        => "How many restarts of containers and pods are allowed before the job fails. No limit if not set.";
    Routes "spec.runPolicy.managedBy": TEXT, r#""kueue.x-k8s.io/multikueue""#
        => "The controller that runs the job: kubeflow.org/training-operator, kubeflow.org/mpi-operator, or not set. muster ignores jobs with any other value. Immutable.";
    Honoured "spec.muster.transport": TRANSPORT, r#""SSH""#
        => "How mpirun reaches the workers: SSH, through the image's sshd, or Agent, through muster's agent. Agent if not set. Cannot be changed.";
};
