//! Policy: which workers to create, keep and delete.
//!
//! A worker that failed or ended stays as it is: its logs are evidence. A worker whose pod
//! object is gone is recreated under the same name.

use std::collections::BTreeSet;

use contract::labels::{
    JOB_ROLE_LABEL, JOB_UID_LABEL, OPERATOR_NAME, OPERATOR_NAME_LABEL, WORKER_ROLE,
};

use super::{pods, worker_set};
use crate::action::Action;
use crate::job::Workers;
use crate::observed::{Observed, Pod};
use crate::reach::Reach;
use crate::recorded::Outcome;
use crate::render::worker_pod::worker_batch;

/// Surplus workers go, missing ones come. `outcome` is how the launcher ended, if it has.
pub(super) fn ensure(
    observed: &Observed,
    reach: Reach<'_>,
    outcome: Option<&Outcome>,
) -> Vec<Action> {
    let (job, site) = (&observed.job, &observed.site);
    let workers = match &job.workers {
        Workers::Pods(workers) => workers,
        Workers::StatefulSet(workers) => return worker_set::ensure(observed, workers, outcome),
    };
    let is_surplus = |pod: &&Pod| {
        let index = job.worker_index(&pod.name);
        !pod.deleting && index.is_some_and(|index| index >= workers.count)
    };
    let surplus = observed.workers.iter().filter(is_surplus).map(pods::delete);
    let present: BTreeSet<u32> = observed
        .workers
        .iter()
        .filter_map(|pod| job.worker_index(&pod.name))
        .collect();
    let missing = (0..workers.count).filter(|index| !present.contains(index));
    let missing = worker_batch(job, site, reach, workers, missing.collect());
    surplus.chain(missing.map(Action::CreateWorkers)).collect()
}

/// No worker stays, whatever became of it: a resumed job starts with fresh ones.
pub(super) fn remove_all(observed: &Observed) -> Vec<Action> {
    remove(observed, "", |_| true)
}

/// No worker stays that may hold resources.
pub(super) fn remove_unfinished(observed: &Observed) -> Vec<Action> {
    let fields = "status.phase!=Succeeded,status.phase!=Failed";
    remove(observed, fields, |pod| !pod.phase.is_over())
}

/// One request where that is safe: every pod it reaches is known to be ours.
fn remove(observed: &Observed, fields: &str, is_meant: impl Fn(&Pod) -> bool) -> Vec<Action> {
    if matches!(observed.job.workers, Workers::StatefulSet(_)) {
        return worker_set::empty(observed);
    }
    let meant: Vec<&Pod> = observed
        .workers
        .iter()
        .filter(|pod| !pod.deleting && is_meant(pod))
        .collect();
    if meant.is_empty() {
        return Vec::new();
    }
    if observed.foreign_in_selection || meant.iter().any(|pod| !pod.labelled) {
        return meant.into_iter().map(pods::delete).collect();
    }
    let uid = &observed.job.owner.uid;
    vec![Action::DeleteWorkers {
        // The operator's name is what pods are watched by: nothing that the selector reaches may
        // be out of sight.
        labels: format!(
            "{OPERATOR_NAME_LABEL}={OPERATOR_NAME},{JOB_UID_LABEL}={uid},{JOB_ROLE_LABEL}={WORKER_ROLE}"
        ),
        fields: fields.to_owned(),
        names: meant.into_iter().map(|pod| pod.name.clone()).collect(),
    }]
}
