//! Policy: a pod that waits for something that will not come by itself ends the job, with its name,
//! instead of holding the resources of all others. A pod for which there is no room now is not
//! one of them.

use jiff::{SignedDuration, Timestamp};

use super::pods;
use crate::observed::{Observed, Pod, Waiting};

/// What the kubelet calls it when a container cannot be made from what the template says, and for
/// how many seconds that may be so. It may have taken fifteen to say it. Nobody brings an image that
/// may not be pulled; a ConfigMap may be applied together with the job.
const HOPELESS: [(&str, i64); 8] = [
    ("ErrImageNeverPull", 5),
    ("InvalidImageName", 5),
    ("SignatureValidationFailed", 20),
    ("CreateContainerConfigError", 12),
    ("FailedMount", 20),
    ("CreateContainerError", 60),
    ("RunContainerError", 60),
    ("CrashLoopBackOff", 180),
];
const PULLS: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];
/// A registry that answers like this has no such image, or not for us. Each phrase has a character
/// that no image's name has, because messages contain that name.
const DENIED: [&str; 11] = [
    "not found",
    "does not exist",
    "manifest unknown",
    "name unknown",
    "no match for platform",
    "unauthorized: ",
    "401 unauthorized",
    "403 forbidden",
    "access denied",
    "is denied",
    "server gave http response to https client",
];
/// The same words also come from proxies, name servers and registries in trouble, or tell of a
/// password that somebody is about to renew.
const IN_TROUBLE: [&str; 9] = [
    "timeout",
    "deadline exceeded",
    "dial ",
    "no such host",
    "toomanyrequests",
    "429",
    "unavailable",
    "unexpected status",
    "expired",
];
/// The kubelet uses the same words for containers that it could not make now, because it or the
/// runtime has too much to do, or may not read a new object yet.
const NOT_NOW: [&str; 10] = [
    "timed out",
    "deadline exceeded",
    "unavailable",
    "failed to sync",
    "is forbidden",
    "connection refused",
    "context canceled",
    "is reserved for",
    "temporarily",
    "no space left",
];
/// The kubelet tries again after ten to fifteen seconds, so it was told the same at least twice.
const DENIED_SECS: i64 = 20;
/// Anything else may pass: an outage of the registry, a kubelet that pulls too much at once. The
/// kubelet then tries every five minutes.
const TROUBLE_SECS: i64 = 1800;

/// What a failed pull tells. The order is that of patience.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PullFailure {
    /// Kubelets before 1.32 do not repeat the cause while they wait for the next try.
    Unsaid,
    Denied,
    MayPass,
}

impl PullFailure {
    fn of(message: &str) -> Self {
        let has = |words: &[&str]| has(message, words);
        let message = message.to_ascii_lowercase();
        let waits = message.starts_with("back-off pulling image") && !message.contains("\": ");
        if message.is_empty() || waits {
            Self::Unsaid
        } else if has(&DENIED) && !has(&IN_TROUBLE) {
            Self::Denied
        } else {
            Self::MayPass
        }
    }
}

/// Of two causes for one wait, the one that may rather pass; otherwise the later.
pub fn more_hopeful_cause<'a>(earlier: &'a str, later: &'a str) -> &'a str {
    if PullFailure::of(earlier) > PullFailure::of(later) {
        earlier
    } else {
        later
    }
}

/// How long a container may wait for this; without a limit when absent.
fn patience(waiting: &Waiting) -> Option<SignedDuration> {
    let secs = if PULLS.contains(&waiting.reason.as_str()) {
        let cause = more_hopeful_cause(&waiting.cause, &waiting.message);
        match PullFailure::of(cause) {
            PullFailure::Denied => DENIED_SECS,
            PullFailure::Unsaid | PullFailure::MayPass => TROUBLE_SECS,
        }
    } else {
        let mut known = HOPELESS.iter();
        let secs = known.find(|(reason, _)| *reason == waiting.reason)?.1;
        match has(&waiting.message, &NOT_NOW) {
            true => TROUBLE_SECS,
            false => secs,
        }
    };
    Some(SignedDuration::from_secs(secs))
}

fn has(message: &str, words: &[&str]) -> bool {
    let message = message.to_ascii_lowercase();
    words.iter().any(|word| message.contains(word))
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
