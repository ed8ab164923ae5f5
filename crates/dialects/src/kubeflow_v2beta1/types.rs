//! The wire: kubeflow.org's MPIJob is one stored resource, so every version reads all of its fields.
//! v1's own (`cleanPodPolicy`, `mainContainer`) mean here what they mean there.

pub use crate::kubeflow::wire::*;
