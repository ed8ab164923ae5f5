//! Users' jobs as the laws look at them: what each asks for, and what its status records. Decides that a
//! job is read once for each change of it, because laws look after every write.

use std::sync::Arc;

use contract::Reason;
use dialects::Resource;
use minicluster::Cluster;
use planner::{Job, Recorded};
use serde_json::Value;

use crate::objects;

/// One job.
#[derive(Debug)]
pub(crate) struct JobView {
    pub(crate) object: Arc<Value>,
    /// As the planner sees it; none if it is invalid.
    pub(crate) lowered: Option<Arc<Job>>,
    /// What its status records.
    pub(crate) recorded: Recorded,
}

impl JobView {
    /// `known` is the job before its last change, which is mostly one of the status.
    fn new(resource: &Resource, object: &Arc<Value>, known: Option<&Self>) -> Self {
        let dialect = resource.dialect_of(object);
        let lower = || (dialect.lower)(object).ok().map(Arc::new);
        Self {
            lowered: known.map_or_else(lower, |known| known.lowered.clone()),
            recorded: (dialect.recorded)(object),
            object: Arc::clone(object),
        }
    }

    pub(crate) fn uid(&self) -> &str {
        objects::uid(&self.object)
    }

    pub(crate) fn name(&self) -> &str {
        objects::name(&self.object)
    }

    /// All but the status is as it is in this object.
    fn asks_the_same(&self, object: &Value) -> bool {
        let same = |part: &str| self.object["metadata"][part] == object["metadata"][part];
        let parts = [
            "uid",
            "generation",
            "annotations",
            "labels",
            "deletionTimestamp",
        ];
        parts.into_iter().all(same) && self.object["spec"] == object["spec"]
    }

    /// Its outcome is recorded.
    pub(crate) fn is_over(&self) -> bool {
        self.recorded.outcome.is_some()
    }

    /// Its user wants no pods of it.
    pub(crate) fn is_suspended(&self) -> bool {
        let lowered = self.lowered.as_ref();
        lowered.is_some_and(|job| job.lifecycle.suspended)
    }

    /// Its workers stay when its launcher ends.
    pub(crate) fn outlives_launcher(&self) -> bool {
        let lowered = self.lowered.as_ref();
        lowered.is_some_and(|job| job.outlives_launcher())
    }

    /// A worker that it loses is replaced.
    pub(crate) fn recovers(&self) -> bool {
        let lowered = self.lowered.as_ref();
        let recovery = lowered.and_then(|job| job.recovery.as_ref());
        recovery.is_some_and(|recovery| recovery.on.contains(&Reason::WorkerLost))
    }

    /// It is valid, and asks for no recovery.
    pub(crate) fn never_recovers(&self) -> bool {
        let lowered = self.lowered.as_ref();
        lowered.is_some_and(|job| job.recovery.is_none())
    }

    /// Nobody wants its pods to go.
    pub(crate) fn wants_its_pods(&self) -> bool {
        let is_deleted = !self.object["metadata"]["deletionTimestamp"].is_null();
        !self.is_over() && !self.is_suspended() && !is_deleted
    }

    /// It recovers and runs, and this is one of the workers that it wants.
    pub(crate) fn runs_and_recovers(&self, pod: &Value) -> bool {
        let lowered = self.lowered.as_ref();
        let is_wanted = lowered.is_some_and(|job| {
            let index = job.worker_index(objects::name(pod));
            index.is_some_and(|index| index < job.worker_count())
        });
        let is_own = objects::job_uid(pod) == self.uid() && objects::controller(pod).is_some();
        is_own && is_wanted && self.recovers() && self.wants_its_pods()
    }

    /// All of its pods.
    pub(crate) fn pods<'a>(&self, cluster: &'a Cluster) -> impl Iterator<Item = &'a Arc<Value>> {
        let uid = self.uid();
        objects::pods(cluster).filter(move |pod| objects::job_uid(pod) == uid)
    }

    /// Its pods but for its launcher.
    pub(crate) fn workers<'a>(&self, cluster: &'a Cluster) -> impl Iterator<Item = &'a Arc<Value>> {
        self.pods(cluster).filter(|pod| !objects::is_launcher(pod))
    }
}

/// All jobs.
#[derive(Debug, Default)]
pub(crate) struct JobViews(Vec<Arc<JobView>>);

impl JobViews {
    /// The jobs as they are now.
    pub(crate) fn look(&mut self, cluster: &Cluster) -> &[Arc<JobView>] {
        let known = std::mem::take(&mut self.0);
        let read = |(resource, object): (&Resource, &Arc<Value>)| {
            let mut known = known.iter();
            let same = known.clone().find(|view| Arc::ptr_eq(&view.object, object));
            same.cloned().unwrap_or_else(|| {
                let alike = known.find(|view| view.asks_the_same(object));
                Arc::new(JobView::new(resource, object, alike.map(AsRef::as_ref)))
            })
        };
        self.0 = objects::jobs(cluster)
            .map(|(resource, object)| read((resource, object)))
            .collect();
        &self.0
    }
}
