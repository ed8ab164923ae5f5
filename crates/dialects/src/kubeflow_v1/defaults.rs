//! Defaults of v1. The operator does not write them back, because Kueue compares templates. Checks no
//! values.

use super::types::MpiJob;
use crate::kubeflow::defaults::{self, Version};

/// The API that a job was written in, as `spec.muster.dialect` has it.
pub(super) const DIALECT_NAME: &str = "v1";

/// Sets every field that the job does not set.
pub(super) fn fill(job: &mut MpiJob) {
    let version = Version {
        name: DIALECT_NAME,
        launcher_restart: "Never",
    };
    defaults::fill(job, &version);
}
