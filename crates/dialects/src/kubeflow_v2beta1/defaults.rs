//! What an MPIJob means where it says nothing. The API server's schema persists some of these;
//! all are repeated here for objects that were stored under another schema. Judges no value.

use super::types::{LAUNCHER, MpiJob, WORKER};

/// The API that a job was written in, as `spec.muster.dialect` has it.
pub const DIALECT_NAME: &str = "v2beta1";

/// Fills in what the job leaves open.
pub fn fill(job: &mut MpiJob) {
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
    say(&mut spec.muster.dialect, DIALECT_NAME);

    let Some(replicas) = &mut spec.replicas else {
        return;
    };
    if let Some(launcher) = replicas.get_mut(LAUNCHER) {
        launcher.replicas.get_or_insert(1);
        say(&mut launcher.restart_policy, "OnFailure");
    }
    if let Some(worker) = replicas.get_mut(WORKER) {
        worker.replicas.get_or_insert(0);
        say(&mut worker.restart_policy, "Never");
    }
}

fn say(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}
