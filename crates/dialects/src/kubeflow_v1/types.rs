//! The wire: kubeflow.org's MPIJob is one stored resource, so every version reads all of its fields.
//! v2beta1's own (`mpiImplementation`, `launcherCreationPolicy`, `runLauncherAsWorker`,
//! `sshAuthMountPath`) mean here what they mean there.

pub(super) use crate::kubeflow::wire::*;
