//! Policy: what remains to be done once the outcome is recorded. Before that, nothing is
//! removed: what exists is the evidence.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{bootstrap, expiry, gang, identity, launcher, workers};
use crate::action::Action;
use crate::job::CleanUp;
use crate::observed::{Observed, Pod, PodPhase};
use crate::recorded::Verdict;

const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// What can be done now.
pub(super) fn actions(observed: &Observed) -> Vec<Action> {
    // Everything that the job owns goes with it.
    if let Some(end) = expiry::due(observed) {
        return vec![end];
    }
    let workers = match observed.job.policy.clean {
        _ if launcher_is_ending(observed) => Vec::new(),
        _ if observed.job.bootstrap.is_some() => bootstrap::dismiss_workers(observed),
        CleanUp::Nothing if observed.job.policy.clean_covers_launcher => gang::remove(observed),
        CleanUp::Nothing => Vec::new(),
        CleanUp::Running => [workers::remove_unfinished(observed), gang::remove(observed)].concat(),
        CleanUp::All => [workers::remove_all(observed), gang::remove(observed)].concat(),
    };
    let workers = workers.into_iter();
    workers
        .chain(launcher(observed))
        .chain(launcher_pod(observed))
        .chain(identity::remove_certificates(observed))
        .collect()
}

/// A program that was told to end has its grace period, and needs its workers for it.
pub(super) fn launcher_is_ending(observed: &Observed) -> bool {
    let alive = |pod: &Pod| pod.phase == PodPhase::Running;
    let until = grace_end(observed);
    until.is_some_and(|until| observed.now < until) && observed.launcher_pods.iter().any(alive)
}

/// Until when that is respected; a node that is gone never says that a pod has ended.
pub(super) fn grace_end(observed: &Observed) -> Option<Timestamp> {
    let outcome = observed.recorded.outcome.as_ref()?;
    let failed = outcome.verdict != Verdict::Succeeded;
    let until = outcome.at.checked_add(GRACE).ok()?;
    failed.then_some(until)
}

/// A launcher that is a pod goes as the workers do, where the policy covers it.
fn launcher_pod(observed: &Observed) -> Vec<Action> {
    let policy = &observed.job.policy;
    match policy.clean {
        // It goes on only where the job was ended around it.
        _ if observed.job.bootstrap.is_some() => {
            launcher::remove_pod(observed, |pod| !pod.phase.is_over())
        }
        _ if !policy.clean_covers_launcher => Vec::new(),
        CleanUp::Nothing => Vec::new(),
        CleanUp::Running => launcher::remove_pod(observed, |pod| !pod.phase.is_over()),
        CleanUp::All => launcher::remove_pod(observed, |_| true),
    }
}

/// A launcher whose job failed around it is stopped; the time to live is handed over only now,
/// so that no Job can vanish before its outcome is recorded.
fn launcher(observed: &Observed) -> Option<Action> {
    let launcher = observed
        .launcher
        .ours()
        .filter(|launcher| !launcher.deleting)?;
    let outcome = observed.recorded.outcome.as_ref()?;
    let lost = outcome.verdict != Verdict::Succeeded;
    if lost && launcher.end.is_none() && !launcher.suspended {
        return Some(launcher::suspend(observed, launcher));
    }
    let ttl = observed.job.policy.ttl_secs?;
    launcher.ttl_secs.is_none().then(|| {
        let merge = json!({"spec": {"ttlSecondsAfterFinished": ttl}});
        launcher::patch(observed, launcher, merge)
    })
}
