//! Policy: which workers to create, keep and delete.
//!
//! A worker that failed or ended stays as it is: its logs are evidence. A worker whose pod
//! object is gone is made again under the same name.

use std::collections::BTreeSet;

use contract::labels::{
    JOB_ROLE_LABEL, JOB_UID_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL, WORKER_ROLE,
};

use super::worker_set;
use crate::job::WorkersAs;
use crate::observed::{Observed, Pod, PodPhase};
use crate::plan::{Action, Kind};
use crate::render::worker_pod::worker_pod;

/// Surplus workers go, missing ones come.
pub(crate) fn ensure(observed: &Observed) -> Vec<Action> {
    let job = &observed.job;
    if job.workers_as == WorkersAs::StatefulSet {
        return worker_set::ensure(observed);
    }
    let wanted = job.worker_count();
    let surplus = observed.workers.iter().filter(|pod| {
        !pod.deleting
            && job
                .worker_index(&pod.name)
                .is_some_and(|index| index >= wanted)
    });
    let mut actions: Vec<Action> = surplus.map(delete).collect();

    let Some(workers) = &job.workers else {
        return actions;
    };
    let present: BTreeSet<&str> = observed
        .workers
        .iter()
        .map(|pod| pod.name.as_str())
        .collect();
    for index in 0..wanted {
        if !present.contains(job.worker_name(index).as_str()) {
            let pod = worker_pod(job, &observed.site, workers, index);
            actions.push(Action::Create(pod));
        }
    }
    actions
}

/// No worker stays, whatever became of it: a resumed job starts with fresh ones.
pub(crate) fn remove_all(observed: &Observed) -> Vec<Action> {
    remove(observed, "", |_| true)
}

/// No worker stays that may hold resources.
pub(crate) fn remove_unfinished(observed: &Observed) -> Vec<Action> {
    let fields = "status.phase!=Succeeded,status.phase!=Failed";
    remove(observed, fields, |pod| !pod.phase.is_over())
}

/// One request where that is safe: every pod it reaches is known to be ours.
fn remove(observed: &Observed, fields: &str, meant: impl Fn(&Pod) -> bool) -> Vec<Action> {
    if observed.job.workers_as == WorkersAs::StatefulSet {
        return worker_set::empty(observed);
    }
    let pods: Vec<&Pod> = observed
        .workers
        .iter()
        .filter(|pod| !pod.deleting && meant(pod))
        .collect();
    if pods.is_empty() {
        return Vec::new();
    }
    if observed.foreign_in_selection || pods.iter().any(|pod| !pod.labelled) {
        return pods.into_iter().map(delete).collect();
    }
    let uid = &observed.job.owner.uid;
    vec![Action::DeleteWorkers {
        // The operator's name is what pods are watched by: nothing that the selector reaches may
        // be out of sight.
        labels: format!(
            "{OPERATOR_NAME_LABEL}={OPERATOR_NAME},{JOB_UID_LABEL}={uid},{JOB_ROLE_LABEL}={WORKER_ROLE}"
        ),
        fields: fields.to_owned(),
        names: pods.into_iter().map(|pod| pod.name.clone()).collect(),
    }]
}

fn delete(pod: &Pod) -> Action {
    Action::Delete {
        kind: Kind::Pod,
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

/// Workers that were asked for and are not on their way out.
pub(crate) fn current(observed: &Observed) -> impl Iterator<Item = &Pod> {
    let wanted = observed.job.worker_count();
    observed.workers.iter().filter(move |pod| {
        !pod.deleting
            && observed
                .job
                .worker_index(&pod.name)
                .is_some_and(|index| index < wanted)
    })
}

/// Every worker that was asked for runs.
pub(crate) fn all_running(observed: &Observed) -> bool {
    let running = current(observed)
        .filter(|pod| pod.phase == PodPhase::Running)
        .count();
    running == observed.job.worker_count() as usize
}

/// Workers that are Ready.
pub(crate) fn ready(observed: &Observed) -> u32 {
    let ready = current(observed)
        .filter(|pod| pod.ready && !pod.phase.is_over())
        .count();
    u32::try_from(ready).expect("no more workers are ready than were asked for")
}

/// Every worker that was asked for is Ready.
pub(crate) fn all_ready(observed: &Observed) -> bool {
    ready(observed) == observed.job.worker_count()
}
