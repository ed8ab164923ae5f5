//! The wire: kubeflow.org's MPIJob is one stored resource, so every version reads all of its fields.
//! v1's own (`cleanPodPolicy`, `mainContainer`) mean here what they mean there.

use crate::field::Field;
pub use crate::kubeflow::wire::*;

/// The fields that this version has its own idea of.
pub(super) const FIELDS: &[Field] = &[
    Field::honoured(
        "spec.mpiReplicaSpecs[Worker].replicas",
        r#"3"#,
        "How many workers; at least 1.",
    ),
    Field::honoured(
        "spec.mpiReplicaSpecs[Launcher].restartPolicy",
        r#""Never""#,
        "Never or OnFailure; OnFailure if not set.",
    ),
    Field::honoured(
        "spec.mpiReplicaSpecs[Worker].restartPolicy",
        r#""OnFailure""#,
        "Never or OnFailure; Never if not set.",
    ),
    Field::honoured(
        "spec.cleanPodPolicy",
        r#""All""#,
        "As runPolicy.cleanPodPolicy, which wins.",
    ),
    Field::honoured(
        "spec.runPolicy.cleanPodPolicy",
        r#""Running""#,
        "Which workers go at the end; None if not set.",
    ),
    Field::honoured(
        "spec.runPolicy.ttlSecondsAfterFinished",
        r#"60"#,
        "How long the launcher's Job stays after the end.",
    ),
    Field::honoured(
        "spec.runPolicy.backoffLimit",
        r#"2"#,
        "How often the launcher is tried again; 6 times if not set.",
    ),
    Field::routes(
        "spec.runPolicy.managedBy",
        r#""kueue.x-k8s.io/multikueue""#,
        "Jobs of any controller but kubeflow.org/mpi-operator are left alone.",
    ),
    Field::honoured(
        "spec.muster.transport",
        r#""Agent""#,
        "How mpirun reaches the workers; as the operator was told if not set.",
    ),
];
