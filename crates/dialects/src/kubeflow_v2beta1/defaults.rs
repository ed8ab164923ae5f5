//! Defaults of v2beta1. The API server persists some of them; all are repeated here for objects that
//! were stored under another schema. Checks no values.

use super::types::MpiJob;
use crate::kubeflow::defaults::{self, Version};

/// The API that a job was written in, as `spec.muster.dialect` has it.
pub const DIALECT_NAME: &str = "v2beta1";

/// Sets every field that the job does not set.
pub fn fill(job: &mut MpiJob) {
    let version = Version {
        name: DIALECT_NAME,
        launcher_restart: "OnFailure",
    };
    defaults::fill(job, &version);
}
