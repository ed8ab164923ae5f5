//! The pods of a job, from the cache. Decides which ones are its workers and which its launcher.

use planner::job::Workers;
use planner::observed::Pod;
use planner::{Job, Kind};

use crate::context::Context;
use crate::object_index::Entry;
use crate::wire::{Facts, Role};

/// The pods of a job.
pub(crate) struct PodLookup<'a> {
    pub(crate) context: &'a Context,
    pub(crate) job: &'a Job,
}

impl PodLookup<'_> {
    /// The pods that the StatefulSet created, or our own.
    pub(crate) fn of_workers(&self, set: Option<&str>) -> Vec<Pod> {
        if matches!(self.job.workers, Workers::StatefulSet(_)) {
            return self.context.cache.with(&Kind::Pod, |index| {
                let own = set.into_iter().flat_map(|set| index.owned_by(set));
                own.filter_map(pod).map(|(pod, _)| pod).collect()
            });
        }
        self.context.cache.with(&Kind::Pod, |index| {
            let own = index.owned_by(&self.job.owner.uid).filter_map(pod);
            let workers = own.filter(|(pod, role)| {
                *role == Role::Worker || self.job.worker_index(&pod.name).is_some()
            });
            workers.map(|(pod, _)| pod).collect()
        })
    }

    /// The launcher, if it is a pod. Otherwise the pods of its Job; without a Job, the pods that an
    /// earlier one left. Those that were left on purpose (`--cascade=orphan`) have no owner any more.
    pub(crate) fn of_launcher(&self, launcher: Option<&str>) -> Vec<Pod> {
        let (uid, name) = (&self.job.owner.uid, &self.job.names.launcher);
        if self.job.launcher.kind.is_pod() {
            return self.context.cache.with(&Kind::Pod, |index| {
                let own = index.owned_by(uid).filter_map(pod).map(|(pod, _)| pod);
                own.filter(|pod| pod.name == *name).collect()
            });
        }
        self.context.cache.with(&Kind::Pod, |index| match launcher {
            Some(launcher) => index
                .owned_by(launcher)
                .filter_map(pod)
                .map(|(pod, _)| pod)
                .collect(),
            None => index
                .job_labelled(uid)
                .filter(|entry| {
                    let owner = entry.child.owner.as_ref();
                    owner.is_none_or(|owner| owner.kind == "Job" && owner.name == *name)
                })
                .filter_map(pod)
                .filter(|(_, role)| *role == Role::Launcher)
                .map(|(pod, _)| pod)
                .collect(),
        })
    }

    /// Somebody gave their own pod the labels of our workers.
    pub(crate) fn foreign_in_selection(&self) -> bool {
        let worker = |entry: &Entry| matches!(&entry.child.facts, Facts::Pod(facts) if facts.role == Role::Worker);
        self.context.cache.with(&Kind::Pod, |index| {
            index.job_labelled(&self.job.owner.uid).any(worker)
        })
    }
}

fn pod(entry: &Entry) -> Option<(Pod, Role)> {
    let facts = entry.child.facts.pod()?;
    Some((facts.pod(&entry.child, entry.delete_requested), facts.role))
}
