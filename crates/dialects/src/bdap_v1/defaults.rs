//! Defaults of this API. Checks no values.

use super::types::MpiJob;

/// The default of a Pod: without another policy, the launcher is restarted forever.
const RESTART_POLICY: &str = "Always";
/// Workers stay until the job is deleted.
const CLEAN_POD_POLICY: &str = "None";

/// Sets every field that the job does not set.
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
