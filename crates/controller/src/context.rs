//! What every step of a pass needs besides the job. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use dialects::Resource;
use jiff::Timestamp;
use kube::core::ApiResource;
use planner::job::Owner;
use planner::site::Site;
use tokio::sync::Semaphore;

use crate::api::{Api, Target};
use crate::cache::Cache;
use crate::dropped::Dropped;
use crate::fair_turns::FairTurns;
use crate::gang_apis::GangApis;
use crate::large_jobs::LargeJobs;
use crate::memory::Memory;
use crate::metrics::{Metrics, Queue};
use crate::pending_jobs::PendingJobs;
use crate::priorities::Priorities;
use crate::scope::KeySource;
use crate::wire::UserJob;

/// What a pass needs besides the job.
pub(crate) struct Context {
    pub(crate) api: Api,
    /// The resource that this controller reconciles, and its dialects.
    pub(crate) served: &'static Resource,
    /// Where its objects live in the API.
    pub(crate) resource: ApiResource,
    pub(crate) site: Site,
    pub(crate) cache: Arc<Cache>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pending: Arc<PendingJobs>,
    pub(crate) metrics: Arc<Metrics>,
    /// Jobs of this controller that wait for a pass.
    pub(crate) queue: Queue,
    pub(crate) priorities: Priorities,
    pub(crate) gang_apis: GangApis,
    /// Shared by all controllers: their jobs have one API server.
    pub(crate) turns: Arc<FairTurns>,
    /// How far the watch may lag behind our own writes before we ask the API server.
    pub(crate) watch_lag_max: Duration,
    /// Status fields that the API server dropped from our writes, because its CRD does not know them.
    pub(crate) dropped: Dropped,
    pub(crate) clock: fn() -> Timestamp,
    pub(crate) nonce: fn() -> String,
    pub(crate) keys: KeySource,
    pub(crate) large_jobs: Arc<LargeJobs>,
    /// Places for passes over jobs that have more to do than one pass does. The other places are for
    /// those that have little.
    pub(crate) long_passes: Semaphore,
}

impl Context {
    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// A job as the owner of its children, also one that cannot be lowered.
    pub(crate) fn owner(&self, job: &UserJob) -> Owner {
        let metadata = &job.metadata;
        Owner {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: job.uid().to_owned(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Where a job lives in the API.
    pub(crate) fn target<'a>(&'a self, job: &'a UserJob) -> Target<'a> {
        Target {
            resource: &self.resource,
            namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
            name: job.metadata.name.as_deref().unwrap_or_default(),
        }
    }
}

/// The job's namespace and name, for the log.
pub(crate) fn label(job: &UserJob) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}/{}",
        part(&job.metadata.namespace),
        part(&job.metadata.name)
    )
}
