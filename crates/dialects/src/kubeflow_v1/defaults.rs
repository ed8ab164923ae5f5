//! What an MPIJob of v1 means where it says nothing. Nothing of this is written back: Kueue compares
//! templates. Judges no value.

use super::types::{LAUNCHER, MpiJob, WORKER};

/// The API that a job was written in, as `spec.muster.dialect` has it.
pub const DIALECT_NAME: &str = "v1";

/// Fills in what the job leaves open.
pub fn fill(job: &mut MpiJob) {
    let spec = &mut job.spec;
    spec.slots_per_worker.get_or_insert(1);
    spec.run_launcher_as_worker.get_or_insert(false);
    spec.run_policy.suspend.get_or_insert(false);
    let first = spec.clean_pod_policy.clone();
    spec.run_policy
        .clean_pod_policy
        .get_or_insert_with(|| first.unwrap_or_else(|| "None".to_owned()));
    say(&mut spec.ssh_auth_mount_path, "/root/.ssh");
    say(&mut spec.launcher_creation_policy, "AtStartup");
    say(&mut spec.mpi_implementation, "OpenMPI");
    say(&mut spec.muster.dialect, DIALECT_NAME);

    let Some(replicas) = &mut spec.replicas else {
        return;
    };
    for (role, count) in [(LAUNCHER, 1), (WORKER, 0)] {
        if let Some(replica) = replicas.get_mut(role) {
            replica.replicas.get_or_insert(count);
            say(&mut replica.restart_policy, "Never");
        }
    }
}

fn say(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}
