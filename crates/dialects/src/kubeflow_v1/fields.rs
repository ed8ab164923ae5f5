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
        => "Which pods, the launcher's too, are deleted when the job is over: None, Running (those that still run) or All. None if not set.";
    Honoured "spec.runPolicy.ttlSecondsAfterFinished": COUNT, "60"
        => "How many seconds the job itself stays after it is over. It stays if not set.";
    Honoured "spec.runPolicy.backoffLimit": COUNT, "2"
        => "How often containers and pods are restarted before the job fails. No limit if not set.";
    Routes "spec.runPolicy.managedBy": TEXT, r#""kueue.x-k8s.io/multikueue""#
        => "The controller that runs the job: kubeflow.org/training-operator or kubeflow.org/mpi-operator if not set. muster leaves jobs of any other controller alone. Immutable.";
    Honoured "spec.muster.transport": TRANSPORT, r#""SSH""#
        => "How mpirun reaches the workers: SSH, through the image's sshd, or Agent, through muster's agent. Agent if not set.";
};
