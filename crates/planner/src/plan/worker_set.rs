//! Policy: the workers where a StatefulSet makes them. It follows the job in number and template; its
//! controller replaces the pods. What others change in its template stays until the job changes: the
//! API server fills in and respells so much that only our own template can be told from another.

use contract::labels::TEMPLATE_ANNOTATION;
use serde_json::{Value, json};

use super::merge_patch;
use crate::action::{Action, Kind};
use crate::job::{CleanUp, StatefulWorkers, Workers};
use crate::observed::{Observed, Slot, WorkerSet};
use crate::recorded::Outcome;
use crate::render::worker_set as render;

/// Creates it, or updates it to the job's number of workers and template.
pub(super) fn ensure(
    observed: &Observed,
    workers: &StatefulWorkers,
    outcome: Option<&Outcome>,
) -> Vec<Action> {
    let job = &observed.job;
    // Workers of a job that outlives its launcher go only where they were asked to, until another
    // launcher is wanted.
    let goes = matches!(job.lifecycle.clean_up, CleanUp::Running | CleanUp::All);
    let idle = goes && outcome.is_some();
    let count = if idle { 0 } else { workers.count };
    let action = match &observed.worker_set {
        Slot::Absent => Some(Action::Create(render::worker_set(job, workers, count))),
        Slot::Ours(set) if !set.deleting => {
            let mut merge = json!({"spec": {}});
            if set.replicas != count {
                merge["spec"]["replicas"] = count.into();
            }
            let fingerprint = render::fingerprint(workers);
            if set.fingerprint != fingerprint {
                let template = render::template(job, workers);
                merge["spec"]["template"] = merge_patch::replacing(&set.template, &template);
                merge["metadata"] = json!({"annotations": {(TEMPLATE_ANNOTATION): fingerprint}});
            }
            let changes = merge["spec"] != json!({});
            changes.then(|| patch(observed, set, merge))
        }
        Slot::Ours(_) | Slot::Foreign => None,
    };
    action.into_iter().collect()
}

/// It has no pods, and can have them again.
pub(super) fn empty(observed: &Observed) -> Vec<Action> {
    let set = observed.worker_set.ours();
    let set = set.filter(|set| !set.deleting && set.replicas > 0);
    let merge = json!({"spec": {"replicas": 0}});
    set.map(|set| patch(observed, set, merge))
        .into_iter()
        .collect()
}

/// Every pod has the job's template, or the workers are not of a StatefulSet.
pub(super) fn is_settled(observed: &Observed) -> bool {
    let Workers::StatefulSet(workers) = &observed.job.workers else {
        return true;
    };
    observed.worker_set.ours().is_some_and(|set| {
        let fingerprint = render::fingerprint(workers);
        set.rolled_out
            && !set.deleting
            && set.replicas == workers.count
            && set.fingerprint == fingerprint
    })
}

fn patch(observed: &Observed, set: &WorkerSet, merge: Value) -> Action {
    let name = &observed.job.names.worker;
    Action::patch(Kind::StatefulSet, name, &set.uid, merge)
}
