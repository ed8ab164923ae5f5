//! Policy: a pod that waits for something that will not come by itself ends the job, with its name,
//! instead of holding the resources of all others. A pod for which there is no room now is not
//! one of them.

use jiff::{SignedDuration, Timestamp};

use super::workers;
use crate::observed::{Observed, Pod, Waiting};

/// What the kubelet calls it when a container cannot be made from what the template says, and for
/// how many seconds that may be so. It may have taken fifteen to say it. Nobody brings an image that
/// may not be pulled; a pull is tried again after ten seconds, and then not for long; a ConfigMap may
/// be applied together with the job.
const HOPELESS: [(&str, i64); 6] = [
    ("ErrImageNeverPull", 5),
    ("InvalidImageName", 5),
    ("ErrImagePull", 12),
    ("ImagePullBackOff", 12),
    ("CreateContainerConfigError", 20),
    ("FailedMount", 20),
];

/// How long a container may wait for this, unless it is for ever.
fn patience(reason: &str) -> Option<SignedDuration> {
    let found = HOPELESS.iter().find(|(hopeless, _)| *hopeless == reason);
    found.map(|(_, secs)| SignedDuration::from_secs(*secs))
}

/// A pod that cannot start, and why.
pub(crate) struct Stuck<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) waiting: &'a Waiting,
    /// It is a worker; otherwise the launcher.
    pub(crate) worker: bool,
    patience: SignedDuration,
}

impl Stuck<'_> {
    /// When hope ends.
    pub(crate) fn until(&self) -> Timestamp {
        self.waiting
            .since
            .checked_add(self.patience)
            .unwrap_or(Timestamp::MAX)
    }
}

/// The pod for which hope ends first.
pub(crate) fn worst(observed: &Observed) -> Option<Stuck<'_>> {
    if observed.job.policy.suspended {
        return None;
    }
    let workers = workers::current(observed).map(|pod| (pod, true));
    let launchers = observed.launcher_pods.iter().map(|pod| (pod, false));
    let stuck = workers.chain(launchers).filter_map(|(pod, worker)| {
        let waiting = pod.waiting.as_ref()?;
        let patience = patience(&waiting.reason)?;
        let waits = !pod.deleting && !pod.phase.is_over();
        waits.then_some(Stuck {
            pod,
            waiting,
            worker,
            patience,
        })
    });
    stuck.min_by_key(Stuck::until)
}
