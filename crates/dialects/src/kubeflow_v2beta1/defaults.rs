//! What an MPIJob means where it says nothing. The API server's schema persists some of these;
//! all are repeated here for objects that were stored under another schema. Judges no value.

use super::types::MpiJob;
use crate::kubeflow::defaults::{self, Version};

/// The API that a job was written in, as `spec.muster.dialect` has it.
pub const DIALECT_NAME: &str = "v2beta1";

/// Fills in what the job leaves open.
pub fn fill(job: &mut MpiJob) {
    let version = Version {
        name: DIALECT_NAME,
        launcher_restart: "OnFailure",
    };
    defaults::fill(job, &version);
}
