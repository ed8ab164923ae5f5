//! What an MPIJob of v1 means where it says nothing. Nothing of this is written back: Kueue compares
//! templates. Judges no value.

use super::types::MpiJob;
use crate::kubeflow::defaults::{self, Version};

/// The API that a job was written in, as `spec.muster.dialect` has it.
pub(super) const DIALECT_NAME: &str = "v1";

/// Fills in what the job leaves open.
pub(super) fn fill(job: &mut MpiJob) {
    let version = Version {
        name: DIALECT_NAME,
        launcher_restart: "Never",
    };
    defaults::fill(job, &version);
}
