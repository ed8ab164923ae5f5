//! Defaults of a T9k job, as in its manual. Checks no values.

use super::types::MpiJob;

/// Where key pairs are mounted.
const SSH_MOUNT_PATH: &str = "/root/.ssh";
/// The sshd that waits for the launcher.
pub(super) const SSHD: &str = "/usr/sbin/sshd";
/// The sshd of a worker that is being debugged, as the manual has it there.
pub(super) const DEBUG_SSHD: &str = "/usr/bin/sshd";

/// Sets every field that the job does not set.
pub(super) fn fill(job: &mut MpiJob) {
    let spec = &mut job.spec;
    if spec.ssh_auth_mount_path.is_empty() {
        SSH_MOUNT_PATH.clone_into(&mut spec.ssh_auth_mount_path);
    }
    spec.clean_up_workers.get_or_insert(false);
    if let Some(worker) = &mut spec.worker {
        worker.replicas.get_or_insert(1);
    }
    for replica in spec.replica_specs.iter_mut().flatten() {
        replica.replicas.get_or_insert(1);
        replica.restart_limit.get_or_insert(0);
        if replica.restart_policy.is_empty() {
            "OnFailure".clone_into(&mut replica.restart_policy);
        }
    }
}
