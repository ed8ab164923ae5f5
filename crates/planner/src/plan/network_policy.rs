//! Policy: the NetworkPolicy of a job that asks for one exists before any of its pods, and goes when the
//! job no longer asks for it.

use serde_json::json;

use super::merge_patch;
use crate::action::{Action, Kind};
use crate::observed::{NetworkPolicyState, Observed, Slot};
use crate::render::network_policy as render;

/// Creates, corrects or deletes it.
pub(super) fn ensure(observed: &Observed) -> Vec<Action> {
    let job = &observed.job;
    let action = match (&observed.network_policy, job.isolated) {
        (Slot::Absent, true) => Some(Action::Create(render::network_policy(job))),
        (Slot::Ours(policy), true) => align(observed, policy),
        (Slot::Ours(policy), false) => {
            let name = &job.owner.name;
            Some(Action::delete(Kind::NetworkPolicy, name, &policy.uid))
        }
        (Slot::Absent, false) | (Slot::Foreign, _) => None,
    };
    action.into_iter().collect()
}

fn align(observed: &Observed, policy: &NetworkPolicyState) -> Option<Action> {
    let job = &observed.job;
    let wanted = render::spec(job);
    (policy.spec != wanted).then(|| {
        let merge = json!({"spec": merge_patch::replacing(&policy.spec, &wanted)});
        let name = &job.owner.name;
        Action::patch(Kind::NetworkPolicy, name, &policy.uid, merge)
    })
}

/// It exists, or none is needed.
pub(super) fn exists(observed: &Observed) -> bool {
    !observed.job.isolated || observed.network_policy.ours().is_some()
}
