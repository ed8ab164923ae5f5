//! Policy: a pod that waits for something that will not come by itself ends the job, with its name,
//! instead of holding the resources of all others. A pod for which there is no room now is not
//! one of them.

use jiff::{SignedDuration, Timestamp};

use super::workers;
use crate::observed::{Observed, Pod, Waiting};

/// What the kubelet calls it when a container cannot be made from what the template says. An
/// image that could not be pulled may be there in a moment, and so may a ConfigMap that is applied
/// together with the job.
const HOPELESS: [&str; 6] = [
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "FailedMount",
];
/// For how long that may be so.
const PATIENCE: SignedDuration = SignedDuration::from_secs(20);

/// A pod that cannot start, and why.
pub(crate) struct Stuck<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) waiting: &'a Waiting,
    /// It is a worker; otherwise the launcher.
    pub(crate) worker: bool,
}

impl Stuck<'_> {
    /// When hope ends.
    pub(crate) fn until(&self) -> Timestamp {
        self.waiting
            .since
            .checked_add(PATIENCE)
            .unwrap_or(Timestamp::MAX)
    }
}

/// The pod that has waited for longest.
pub(crate) fn worst(observed: &Observed) -> Option<Stuck<'_>> {
    if observed.job.policy.suspended {
        return None;
    }
    let workers = workers::current(observed).map(|pod| (pod, true));
    let launchers = observed.launcher_pods.iter().map(|pod| (pod, false));
    let stuck = workers.chain(launchers).filter_map(|(pod, worker)| {
        let waiting = pod.waiting.as_ref()?;
        let hopeless = HOPELESS.contains(&waiting.reason.as_str());
        let waits = !pod.deleting && !pod.phase.is_over();
        (hopeless && waits).then_some(Stuck {
            pod,
            waiting,
            worker,
        })
    });
    stuck.min_by_key(Stuck::until)
}
