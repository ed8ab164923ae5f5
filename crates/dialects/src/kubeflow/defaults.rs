//! What an MPIJob of kubeflow.org means where it says nothing. The versions agree on all of it but one
//! word: what becomes of a launcher that failed. Judges no value.

use super::wire::{LAUNCHER, MpiJob, WORKER};

/// What only the version knows.
pub(crate) struct Version {
    /// As `spec.muster.dialect` has it.
    pub(crate) name: &'static str,
    /// Restart policy of the launcher.
    pub(crate) launcher_restart: &'static str,
}

/// Fills in what the job leaves open.
pub(crate) fn fill(job: &mut MpiJob, version: &Version) {
    let spec = &mut job.spec;
    spec.slots_per_worker.get_or_insert(1);
    spec.run_launcher_as_worker.get_or_insert(false);
    spec.run_policy.suspend.get_or_insert(false);
    let given = spec.clean_pod_policy.clone();
    spec.run_policy
        .clean_pod_policy
        .get_or_insert_with(|| given.unwrap_or_else(|| "None".to_owned()));
    say(&mut spec.ssh_auth_mount_path, "/root/.ssh");
    say(&mut spec.launcher_creation_policy, "AtStartup");
    say(&mut spec.mpi_implementation, "OpenMPI");
    say(&mut spec.muster.dialect, version.name);

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
            say(&mut replica.restart_policy, restart);
        }
    }
}

fn say(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}
