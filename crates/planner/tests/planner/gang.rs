//! The PodGroup of a job: what it says, when it comes and goes, and how pods join it.

mod content;
mod drift;
mod lifetime;
mod native;

use std::collections::BTreeMap;

use planner::fixtures::{job, world};
use planner::observed::{PodGroup, Slot};
use planner::site::GangScheduler;
use planner::{Action, Job, Kind, Observed, Plan, plan};
use serde_json::{Value, json};

fn volcano() -> GangScheduler {
    GangScheduler::Volcano
}

fn plugins() -> GangScheduler {
    GangScheduler::SchedulerPlugins("gang-scheduler".to_owned())
}

fn world_with(scheduler: GangScheduler, job: Job) -> Observed {
    world(job).with(|world| world.site.gang = Some(scheduler))
}

/// A launcher and workers that ask for these resources.
fn asking(workers: u32, launcher: &Value, worker: &Value) -> Job {
    let template = |list: &Value| json!({"spec": {"containers": [{"name": "main", "resources": {"requests": list}}]}});
    let job = if workers == 0 {
        job("demo")
    } else {
        job("demo").workers(workers)
    };
    job.with(|job| {
        job.launcher.role.template = template(launcher);
        job.worker_role().template = template(worker);
    })
}

/// With these priority classes in the templates; empty for none.
fn classes(job: Job, launcher: &str, worker: &str) -> Job {
    job.with(|job| {
        job.launcher.role.template["spec"]["priorityClassName"] = launcher.into();
        job.worker_role().template["spec"]["priorityClassName"] = worker.into();
    })
}

fn group_actions(plan: &Plan) -> Vec<&Action> {
    let of_group = |action: &&Action| {
        let kind = match action {
            Action::Create(object) | Action::CreateKey { secret: object, .. } => &object.kind,
            Action::Patch { kind, .. } | Action::Delete { kind, .. } => kind,
            Action::CreateWorkers(_)
            | Action::ForgetPod { .. }
            | Action::DeleteKey { .. }
            | Action::DeleteWorkers { .. }
            | Action::DeleteJob { .. } => {
                return false;
            }
        };
        matches!(kind, Kind::PodGroup(_))
    };
    plan.steps.iter().flatten().filter(of_group).collect()
}

/// The group that a fresh world gets.
fn created(world: &Observed) -> Value {
    match group_actions(&plan(world)).as_slice() {
        [Action::Create(object)] => object.body.clone(),
        other => panic!("one group is created, not {other:?}"),
    }
}

fn created_spec(world: &Observed) -> Value {
    created(world)["spec"].clone()
}

/// The spec part of the one patch of the group, if there is one.
fn patched(world: &Observed) -> Option<Value> {
    match group_actions(&plan(world)).as_slice() {
        [] => None,
        [
            Action::Patch {
                uid,
                subresource: None,
                merge,
                ..
            },
        ] => {
            assert_eq!(uid, "uid-group");
            Some(merge["spec"].clone())
        }
        other => panic!("the group is patched, not {other:?}"),
    }
}

/// The world with a group of ours that has this spec.
fn holding(world: Observed, spec: Value) -> Observed {
    let group = PodGroup {
        uid: "uid-group".to_owned(),
        spec,
        deleting: false,
    };
    world.with(|world| world.pod_group = Slot::Ours(group))
}

/// Everything that the user can say.
fn wishful() -> Job {
    asking(2, &json!({"cpu": "1"}), &json!({"cpu": "4"})).with(|job| {
        job.gang.min_members = Some(2);
        job.gang.queue = Some("research".to_owned());
        job.gang.min_resources = Some(BTreeMap::from([("cpu".to_owned(), json!("0.50"))]));
        job.gang.priority_class = Some("urgent".to_owned());
        job.gang.schedule_timeout_secs = Some(90);
    })
}
