//! Policy: the launcher where it is a pod of ours. It is made once, made again only when somebody
//! deleted it, and its end is the job's.

use super::launcher;
use crate::observed::{Observed, Pod};
use crate::plan::{Action, Kind};
use crate::render::launcher as render;

/// Brings the pod to what the user wants now.
pub(crate) fn align(observed: &Observed) -> Vec<Action> {
    if observed.job.policy.suspended {
        return remove(observed, |_| true);
    }
    let name = observed.job.launcher_name();
    // A pod on its way out still holds the name.
    let held = !observed.launcher_pods.is_empty() || observed.foreign_pods.contains(&name);
    if held || !launcher::may_start(observed) {
        return Vec::new();
    }
    let pod = render::launcher_pod(&observed.job, &observed.site);
    vec![Action::Create(pod)]
}

/// The pod goes, if it is one that is meant.
pub(crate) fn remove(observed: &Observed, meant: impl Fn(&Pod) -> bool) -> Vec<Action> {
    let pods = observed.launcher_pods.iter();
    pods.filter(|pod| !pod.deleting && meant(pod))
        .map(|pod| Action::Delete {
            kind: Kind::Pod,
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        })
        .collect()
}
