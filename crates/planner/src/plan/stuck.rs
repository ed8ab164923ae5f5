//! Policy: a pod that waits for something that will not come by itself ends the job, with its name,
//! instead of holding the resources of all others. A pod for which there is no room now is not
//! one of them.

use jiff::{SignedDuration, Timestamp};

use super::pods;
use crate::observed::{Observed, Pod, Waiting};

/// What the kubelet calls it when a container cannot be made from what the template says, and for
/// how many seconds that may be so. It may have taken fifteen to say it. Nobody brings an image that
/// may not be pulled; a pull is tried again after ten seconds, and then not for long; a ConfigMap may
/// be applied together with the job.
const HOPELESS: [(&str, i64); 10] = [
    ("ErrImageNeverPull", 5),
    ("InvalidImageName", 5),
    ("ErrImagePull", 12),
    ("ImagePullBackOff", 12),
    ("SignatureValidationFailed", 20),
    ("CreateContainerConfigError", 12),
    ("FailedMount", 20),
    ("CreateContainerError", 60),
    ("RunContainerError", 60),
    ("CrashLoopBackOff", 180),
];
/// A registry that is down, or asks for patience, is not an image that is not there.
const PASSING: [&str; 8] = [
    "timeout",
    "deadline exceeded",
    "connection re",
    "no such host",
    "toomanyrequests",
    "429",
    "unavailable",
    "unexpected status",
];
const PASSING_SECS: i64 = 300;

/// How long a container may wait for this; without a limit when absent.
fn patience(waiting: &Waiting) -> Option<SignedDuration> {
    let mut known = HOPELESS.iter();
    let (reason, secs) = known.find(|(hopeless, _)| *hopeless == waiting.reason)?;
    let message = waiting.message.to_ascii_lowercase();
    let passes = reason.contains("ImagePull") && PASSING.iter().any(|word| message.contains(word));
    let secs = if passes { PASSING_SECS } else { *secs };
    Some(SignedDuration::from_secs(secs))
}

/// A pod that cannot start, and why.
pub(super) struct Stuck<'a> {
    pub(super) pod: &'a Pod,
    pub(super) waiting: &'a Waiting,
    /// It is a worker; otherwise the launcher.
    pub(super) worker: bool,
    patience: SignedDuration,
}

impl Stuck<'_> {
    /// When it has waited too long.
    pub(super) fn until(&self) -> Timestamp {
        self.waiting
            .since
            .checked_add(self.patience)
            .unwrap_or(Timestamp::MAX)
    }
}

/// The pod that will have waited too long first.
pub(super) fn worst(observed: &Observed) -> Option<Stuck<'_>> {
    if observed.job.lifecycle.suspended {
        return None;
    }
    // Only the program can tell whether it works without a worker, and an elastic one does.
    let (elastic, runs) = (observed.job.elastic, pods::running_launchers(observed) > 0);
    let counts = |pod: &&Pod| {
        let crashes = pod
            .waiting
            .as_ref()
            .is_some_and(|w| w.reason == "CrashLoopBackOff");
        !(elastic || runs && crashes)
    };
    let workers = pods::workers(observed)
        .filter(counts)
        .map(|pod| (pod, true));
    let launchers = observed.launcher_pods.iter().map(|pod| (pod, false));
    let stuck = workers.chain(launchers).filter_map(|(pod, worker)| {
        let waiting = pod.waiting.as_ref()?;
        // How often a launcher is tried is a policy of its own.
        let patience =
            patience(waiting).filter(|_| worker || waiting.reason != "CrashLoopBackOff")?;
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
