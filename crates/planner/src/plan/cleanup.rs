//! Policy: what remains to be done once the outcome is recorded. Before that, nothing is
//! removed: what exists is the evidence.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{bootstrap, expiry, gang, identity, launcher, launcher_pod, workers};
use crate::job::CleanUp;
use crate::observed::{Observed, Pod, PodPhase};
use crate::plan::Action;
use crate::status::Verdict;

const FAREWELL: SignedDuration = SignedDuration::from_secs(60);

/// Nothing remains, now or in a moment.
pub(crate) fn is_done(observed: &Observed) -> bool {
    steps(observed).is_empty() && !launcher_leaves(observed)
}

/// What can be done now.
pub(crate) fn steps(observed: &Observed) -> Vec<Vec<Action>> {
    // Everything that the job owns goes with it.
    if let Some(end) = expiry::due(observed) {
        return vec![vec![end]];
    }
    let workers = match observed.job.policy.clean {
        _ if launcher_leaves(observed) => Vec::new(),
        _ if observed.job.bootstrap.is_some() => bootstrap::dismiss_workers(observed),
        CleanUp::Nothing if observed.job.policy.clean_covers_launcher => gang::remove(observed),
        CleanUp::Nothing => Vec::new(),
        CleanUp::Running => [workers::remove_unfinished(observed), gang::remove(observed)].concat(),
        CleanUp::All => [workers::remove_all(observed), gang::remove(observed)].concat(),
    };
    let step: Vec<Action> = workers
        .into_iter()
        .chain(launcher(observed))
        .chain(launcher_pod(observed))
        .chain(identity::remove_certificates(observed))
        .collect();
    if step.is_empty() {
        Vec::new()
    } else {
        vec![step]
    }
}

/// A program that was told to end has its grace period, and needs its workers for it.
fn launcher_leaves(observed: &Observed) -> bool {
    let alive = |pod: &Pod| pod.phase == PodPhase::Running;
    let until = farewell(observed);
    until.is_some_and(|until| observed.now < until) && observed.launcher_pods.iter().any(alive)
}

/// Until when that is respected; a node that is gone never says that a pod has ended.
pub(crate) fn farewell(observed: &Observed) -> Option<Timestamp> {
    let outcome = observed.recorded.outcome.as_ref()?;
    let failed = outcome.verdict != Verdict::Succeeded;
    let until = outcome.at.checked_add(FAREWELL).ok()?;
    failed.then_some(until)
}

/// A launcher that is a pod goes as the workers do, where the policy covers it.
fn launcher_pod(observed: &Observed) -> Vec<Action> {
    let policy = &observed.job.policy;
    match policy.clean {
        // It goes on only where the job was ended around it.
        _ if observed.job.bootstrap.is_some() => {
            launcher_pod::remove(observed, |pod| !pod.phase.is_over())
        }
        _ if !policy.clean_covers_launcher => Vec::new(),
        CleanUp::Nothing => Vec::new(),
        CleanUp::Running => launcher_pod::remove(observed, |pod| !pod.phase.is_over()),
        CleanUp::All => launcher_pod::remove(observed, |_| true),
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
        launcher::patch(observed, launcher, None, merge)
    })
}
