//! Policy tests: `plan()` through its public face, one file for each question.
//!
//! - `account`: what a launcher may ask of the API server
//! - `agent`: the agent in pods, the gate, and what the agent says
//! - `golden`: the children of the plainest job, byte for byte
//! - `pods`: what pods and Job look like when users ask for more
//! - `hosts`: host list and discovery script
//! - `start`: from nothing to running
//! - `life`: how long each part of a job's life took
//! - `history`: what a status tells of the past
//! - `limits`: what Kubernetes limits, and what is refused for it
//! - `launcher`: the gate, retries, name reuse
//! - `suspend`: suspend and resume
//! - `finish`: verdicts and what is said of them
//! - `cleanup`: what remains afterwards
//! - `foreign`: names that others hold, and refusals
//! - `deadline`: deadlines and waking
//! - `gang`: pod groups
//! - `own_pods`: jobs whose launcher is a pod
//! - `parts`: every combination of parts of a job
//! - `recovery`: programs that are started again in their pods
//! - `proof`: what looks like an end and proves none
//! - `size`: jobs of any size that is accepted
//! - `worker_set`: jobs whose workers a StatefulSet makes

mod account;
mod agent;
mod cleanup;
mod deadline;
mod finish;
mod foreign;
mod gang;
mod golden;
mod history;
mod hostile_text;
mod hosts;
mod keys;
mod launcher;
mod life;
mod limits;
mod network_policy;
mod own_pods;
mod parts;
mod placement;
mod pods;
mod proof;
mod recovery;
mod size;
mod start;
mod suspend;
mod worker_set;

use planner::{Action, Kind, Object, Plan};
use serde_json::Value;

/// What the plan does, in short: `create Pod demo-worker-0`.
fn deeds(plan: &Plan) -> Vec<String> {
    plan.steps.iter().flatten().flat_map(deeds_of).collect()
}

fn deeds_of(action: &Action) -> Vec<String> {
    let deed = match action {
        Action::CreateWorkers(_) => {
            let pods = action.objects().into_iter();
            return pods.map(|pod| format!("create Pod {}", pod.name)).collect();
        }
        Action::Create(object) | Action::CreateKey { secret: object, .. } => {
            format!("create {} {}", object.kind.as_str(), object.name)
        }
        Action::Patch {
            kind,
            name,
            subresource: Some(part),
            ..
        } => {
            format!("patch {} {name}/{part}", kind.as_str())
        }
        Action::Patch { kind, name, .. } => format!("patch {} {name}", kind.as_str()),
        Action::Delete { kind, name, .. } => format!("delete {} {name}", kind.as_str()),
        Action::ForgetPod { name, .. } => format!("forget Pod {name}"),
        Action::DeleteKey { name } => format!("delete Secret {name}"),
        Action::DeleteWorkers { names, .. } => format!("delete workers {}", names.join(" ")),
        Action::DeleteJob { uid } => format!("delete the job {uid}"),
    };
    vec![deed]
}

/// The objects that the plan creates.
fn created(plan: &Plan) -> Vec<Object> {
    let actions = plan.steps.iter().flatten();
    actions.flat_map(Action::objects).collect()
}

/// The one object of this name that the plan creates.
fn created_one(plan: &Plan, kind: Kind, name: &str) -> Value {
    let found = created(plan)
        .into_iter()
        .find(|o| o.kind == kind && o.name == name);
    found
        .unwrap_or_else(|| panic!("no {} {name} in {:?}", kind.as_str(), deeds(plan)))
        .body
}

/// The body of the one patch.
fn patch(plan: &Plan) -> Value {
    let mut patches = plan
        .steps
        .iter()
        .flatten()
        .filter_map(|action| match action {
            Action::Patch { merge, .. } => Some(merge.clone()),
            Action::Create(_)
            | Action::CreateWorkers(_)
            | Action::CreateKey { .. }
            | Action::Delete { .. }
            | Action::ForgetPod { .. }
            | Action::DeleteKey { .. }
            | Action::DeleteWorkers { .. }
            | Action::DeleteJob { .. } => None,
        });
    let patch = patches.next().expect("the plan has a patch");
    assert!(patches.next().is_none(), "the plan has one patch only");
    patch
}
