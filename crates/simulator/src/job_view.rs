//! Users' jobs as the laws look at them: what each asks for, and what its status records. Decides that a
//! job is read once for each change of it, because laws look after every write.

use std::sync::Arc;

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
    pub(crate) lowered: Option<Job>,
    /// What its status records.
    pub(crate) recorded: Recorded,
}

impl JobView {
    pub(crate) fn new(resource: &Resource, object: &Arc<Value>) -> Self {
        let dialect = resource.dialect_of(object);
        Self {
            lowered: (dialect.lower)(object).ok(),
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
        self.lowered.as_ref().is_some_and(Job::outlives_launcher)
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
            let same = known.find(|view| Arc::ptr_eq(&view.object, object));
            same.cloned()
                .unwrap_or_else(|| Arc::new(JobView::new(resource, object)))
        };
        self.0 = objects::jobs(cluster)
            .map(|(resource, object)| read((resource, object)))
            .collect();
        &self.0
    }
}
