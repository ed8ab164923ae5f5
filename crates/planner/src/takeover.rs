//! Jobs that another operator began before this one came: what their objects tell about them, because
//! their status does not. Decides nothing about jobs that we began.

use contract::labels::JOB_UID_LABEL;

use crate::job::{HostNames, Job};
use crate::observed::{LauncherJob, Pod};
use crate::site::Transport;

/// The job with the transport of its launcher and workers, if another operator made them. Ours have a
/// label that no other operator knows, and the others have one transport only.
pub fn taken_over(job: Job, launcher: Option<&LauncherJob>, workers: &[Pod]) -> Job {
    let launcher = launcher.map(|job| job.directives.labels.contains_key(JOB_UID_LABEL));
    let workers = workers.iter().map(|pod| pod.labelled);
    let ours: Vec<bool> = launcher.into_iter().chain(workers).collect();
    match ours.is_empty() || ours.contains(&true) {
        true => job,
        false => job.begun_with(Transport::Ssh, HostNames::Service),
    }
}
