//! Policy: where a job asks for recovery, a worker that was lost while the launcher ran is replaced alone, and
//! the launcher goes on when the new one has answered. How often the program is started again is the launcher's business: it
//! keeps the budget and ends when that is used up, and then nobody is replaced any more.

use contract::Reason;
use jiff::{SignedDuration, Timestamp};

use super::pods;
use crate::action::Action;
use crate::observed::{Observed, Pod};

/// A worker is not replaced before this age, so that one which ends at once, again and again, costs little.
const AGE_MIN: SignedDuration = SignedDuration::from_secs(10);
/// A node that has not confirmed the end of a pod's containers for this long after their grace time is gone.
const SILENCE_MAX: SignedDuration = SignedDuration::from_secs(60);

/// The pod is a worker that has ended, and is to be replaced.
pub(super) fn is_lost(observed: &Observed, pod: &Pod) -> bool {
    let ended = pod.phase.is_over() && !pod.deleting;
    // A launcher that waits for its first workers has no budget, and would wait without end.
    ended && is_replaceable(observed, pod) && pods::running_launchers(observed) > 0
}

/// When a lost worker may be replaced.
pub(super) fn due(pod: &Pod) -> Timestamp {
    later(pod.created_at, AGE_MIN)
}

/// Workers on nodes that are gone: nobody else ends them, and their names are needed.
pub(super) fn forget_abandoned(observed: &Observed) -> Vec<Action> {
    let forgotten = abandoned(observed).filter(|(_, at)| *at <= observed.now);
    let action = |(pod, _): (&Pod, Timestamp)| Action::ForgetPod {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    };
    forgotten.map(action).collect()
}

/// When to look again: a worker may be replaced then.
pub(super) fn wake(observed: &Observed) -> impl Iterator<Item = Timestamp> {
    let lost = observed.workers.iter();
    let lost = lost.filter(|pod| is_lost(observed, pod)).map(due);
    lost.chain(abandoned(observed).map(|(_, at)| at))
}

/// Workers that should be gone by now and are not, and when each counts as gone. The Ready condition tells a
/// node that does not answer from one that takes its time.
fn abandoned(observed: &Observed) -> impl Iterator<Item = (&Pod, Timestamp)> {
    observed.workers.iter().filter_map(|pod| {
        let ends_by = pod.ends_by.filter(|_| !pod.ready)?;
        is_replaceable(observed, pod).then(|| (pod, later(ends_by, SILENCE_MAX)))
    })
}

fn is_replaceable(observed: &Observed, pod: &Pod) -> bool {
    let job = &observed.job;
    let is_asked = |reasons: &[Reason]| reasons.contains(&Reason::WorkerLost);
    let recovery = job.recovery.as_ref();
    let index = job.worker_index(&pod.name);
    recovery.is_some_and(|recovery| is_asked(&recovery.on))
        && index.is_some_and(|index| index < job.worker_count())
        && !job.lifecycle.suspended
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
