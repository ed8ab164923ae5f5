//! Defaults of an MPIJob of kubeflow.org. The versions differ in one only: whether a failed launcher is
//! restarted. Checks no values.

use super::wire::{LAUNCHER, MpiJob, WORKER};

/// What differs between the versions.
pub(crate) struct Version {
    /// As `spec.muster.dialect` has it.
    pub(crate) name: &'static str,
    /// Restart policy of the launcher.
    pub(crate) launcher_restart: &'static str,
}

/// Sets every field that the job does not set.
pub(crate) fn fill(job: &mut MpiJob, version: &Version) {
    let spec = &mut job.spec;
    spec.slots_per_worker.get_or_insert(1);
    spec.run_launcher_as_worker.get_or_insert(false);
    spec.run_policy.suspend.get_or_insert(false);
    let given = spec.clean_pod_policy.clone();
    spec.run_policy
        .clean_pod_policy
        .get_or_insert_with(|| given.unwrap_or_else(|| "None".to_owned()));
    set_default(&mut spec.ssh_auth_mount_path, "/root/.ssh");
    set_default(&mut spec.launcher_creation_policy, "AtStartup");
    set_default(&mut spec.mpi_implementation, "OpenMPI");
    set_default(&mut spec.muster.dialect, version.name);

    let Some(replicas) = &mut spec.replicas else {
        return;
    };
    let roles = [
        (LAUNCHER, 1, version.launcher_restart),
        (WORKER, 0, "Never"),
    ];
    for (role, count, restart) in roles {
        if let Some(replica) = replicas.get_mut(role) {
            replica.replicas.get_or_insert(count);
            set_default(&mut replica.restart_policy, restart);
        }
    }
}

fn set_default(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}
