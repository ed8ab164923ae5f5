//! What every step of a pass needs besides the job. Holds; decides nothing.

use std::sync::Arc;
use std::time::Duration;

use dialects::Resource;
use kube::core::ApiResource;
use planner::observed::Site;

use crate::api::Api;
use crate::cache::Cache;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::priorities::Priorities;
use crate::wire::UserJob;

/// What a pass needs besides the job.
pub(crate) struct Context {
    pub(crate) api: Api,
    /// The jobs that are looked after, and the dialects that they are written in.
    pub(crate) served: &'static Resource,
    /// Where they live in the API.
    pub(crate) resource: ApiResource,
    pub(crate) site: Site,
    pub(crate) cache: Arc<Cache>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) priorities: Priorities,
    /// How far the watch may lag behind our own writes before we ask the API server.
    pub(crate) watch_lag_max: Duration,
}

/// The job's name for people.
pub(crate) fn label(job: &UserJob) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}/{}",
        part(&job.metadata.namespace),
        part(&job.metadata.name)
    )
}
