//! What an MPIJob of this API means where it says nothing. Judges no value.

use super::types::MpiJob;

/// As a Pod has it: a launcher that does not say otherwise is started again for ever.
const RESTART_POLICY: &str = "Always";
/// Workers stay until the job is deleted.
const CLEAN_POD_POLICY: &str = "None";

/// Fills in what the job leaves open.
pub(super) fn fill(job: &mut MpiJob) {
    for template in [&mut job.spec.launcher, &mut job.spec.worker] {
        if template.restart_policy.is_empty() {
            RESTART_POLICY.clone_into(&mut template.restart_policy);
        }
    }
    if job.spec.clean_pod_policy.is_empty() {
        CLEAN_POD_POLICY.clone_into(&mut job.spec.clean_pod_policy);
    }
}
