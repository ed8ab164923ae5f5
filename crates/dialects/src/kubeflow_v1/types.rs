//! The wire: kubeflow.org's MPIJob is one stored resource, so every version reads all of its fields.
//! v2beta1's own (`mpiImplementation`, `launcherCreationPolicy`, `runLauncherAsWorker`,
//! `sshAuthMountPath`) mean here what they mean there.

use crate::field::Field;
pub use crate::kubeflow::wire::*;

/// The fields that this version has its own idea of.
pub(super) const FIELDS: &[Field] = &[
    Field::honoured(
        "spec.mpiReplicaSpecs[Worker].replicas",
        r#"3"#,
        "How many workers; none if not set.",
    ),
    Field::honoured(
        "spec.mpiReplicaSpecs[Launcher].restartPolicy",
        r#""ExitCode""#,
        "Never if not set; Always is as OnFailure; ExitCode makes a pod again that was ended from outside.",
    ),
    Field::honoured(
        "spec.mpiReplicaSpecs[Worker].restartPolicy",
        r#""Always""#,
        "Never if not set; ExitCode makes a pod again that was ended from outside.",
    ),
    Field::honoured(
        "spec.cleanPodPolicy",
        r#""All""#,
        "As runPolicy.cleanPodPolicy, which wins.",
    ),
    Field::honoured(
        "spec.runPolicy.cleanPodPolicy",
        r#""Running""#,
        "Which pods go at the end, the launcher's too; None if not set.",
    ),
    Field::honoured(
        "spec.runPolicy.ttlSecondsAfterFinished",
        r#"60"#,
        "How long the job itself stays after the end.",
    ),
    Field::honoured(
        "spec.runPolicy.backoffLimit",
        r#"2"#,
        "How often containers and pods are started again; no limit if not set.",
    ),
    Field::routes(
        "spec.runPolicy.managedBy",
        r#""kueue.x-k8s.io/multikueue""#,
        "Jobs of any controller but kubeflow.org/training-operator and kubeflow.org/mpi-operator are left alone.",
    ),
    Field::honoured(
        "spec.muster.transport",
        r#""SSH""#,
        "How mpirun reaches the workers; Agent if not set.",
    ),
];
