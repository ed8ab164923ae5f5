//! Policy: which workers to create, keep and delete.
//!
//! A worker that failed or ended stays as it is: its logs are evidence. A worker whose pod
//! object is gone is recreated under the same name.

use std::collections::BTreeSet;

use super::{identity, pods, worker_set};
use crate::action::Action;
use crate::job::Workers;
use crate::observed::{Observed, Pod};
use crate::reach::Reach;
use crate::recorded::Outcome;
use crate::render::worker_pod::worker_batch;
use crate::worker_selection::WorkerSelection;

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
    let present: BTreeSet<u32> = observed
        .workers
        .iter()
        .filter_map(|pod| job.worker_index(&pod.name))
        .collect();
    let missing = 0..workers.count.min(identity::keys_for(observed));
    let missing = missing.filter(|index| !present.contains(index));
    let missing = worker_batch(job, site, reach, workers, missing.collect());
    let missing = missing.map(Action::CreateWorkers);
    remove_surplus(observed, workers.count)
        .into_iter()
        .chain(missing)
        .collect()
}

/// Only so many workers stay: those with the lowest indices.
fn remove_surplus(observed: &Observed, count: u32) -> Vec<Action> {
    let job = &observed.job;
    let is_surplus = |pod: &Pod| {
        let index = job.worker_index(&pod.name);
        index.is_some_and(|index| index >= count)
    };
    let surplus = observed.workers.iter().filter(|pod| is_surplus(pod));
    let lowest = surplus.filter_map(|pod| pod.replica_index).min();
    let mut selection = WorkerSelection::all(&job.owner.uid);
    // A selector cannot be above less than 0, and need not.
    let above = lowest.filter(|lowest| *lowest > 0);
    selection.above = above.map(|lowest| lowest - 1);
    remove(observed, selection, is_surplus)
}

/// No worker stays, whatever became of it: a resumed job starts with fresh ones.
pub(super) fn remove_all(observed: &Observed) -> Vec<Action> {
    let selection = WorkerSelection::all(&observed.job.owner.uid);
    remove_of_any(observed, selection, |_| true)
}

/// No worker stays that may hold resources.
pub(super) fn remove_unfinished(observed: &Observed) -> Vec<Action> {
    let mut selection = WorkerSelection::all(&observed.job.owner.uid);
    selection.is_unfinished = true;
    remove_of_any(observed, selection, |pod| !pod.phase.is_over())
}

fn remove_of_any(
    observed: &Observed,
    selection: WorkerSelection,
    is_meant: impl Fn(&Pod) -> bool,
) -> Vec<Action> {
    match &observed.job.workers {
        Workers::StatefulSet(_) => worker_set::empty(observed),
        Workers::Pods(_) => remove(observed, selection, is_meant),
    }
}

/// One request where that is safe: it reaches every pod that is meant, and no other.
fn remove(
    observed: &Observed,
    selection: WorkerSelection,
    is_meant: impl Fn(&Pod) -> bool,
) -> Vec<Action> {
    let staying = observed.workers.iter().filter(|pod| !pod.deleting);
    let (meant, others): (Vec<&Pod>, Vec<&Pod>) = staying.partition(|pod| is_meant(pod));
    if meant.is_empty() {
        return Vec::new();
    }
    let is_exact = meant.iter().all(|pod| pod.is_in(&selection))
        && !others.iter().any(|pod| pod.is_in(&selection));
    if observed.foreign_in_selection || !is_exact {
        return meant.into_iter().map(pods::delete).collect();
    }
    let names = meant.into_iter().map(|pod| pod.name.clone()).collect();
    vec![Action::DeleteWorkers { selection, names }]
}
