//! The parts of an operator, put together. Decides what they share; whoever runs them decides when.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dialects::{RESOURCES, Resource};
use futures::future::{BoxFuture, Shared, join_all};
use kube::core::ApiResource;
use planner::Kind;
use tokio::sync::Semaphore;

use crate::api::Api;
use crate::cache::Cache;
use crate::context::Context;
use crate::dropped::Dropped;
use crate::fair_turns::FairTurns;
use crate::gang_apis::GangApis;
use crate::large_jobs::LargeJobs;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::pending_jobs::PendingJobs;
use crate::priorities::Priorities;
use crate::scope::Scope;
use crate::watch::{self, Watch};
use crate::wire;

/// A healthy watch does not lag this far behind our own writes.
const WATCH_LAG_MAX: Duration = Duration::from_secs(10);

/// Ready once the operator was told to stop.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// The parts of one operator.
pub(crate) struct Assembly {
    pub(crate) watch: Watch,
    pub(crate) pending: Arc<PendingJobs>,
    /// Kinds of children that are watched from the start.
    pub(crate) kinds: Vec<Kind>,
    /// One for each of [`RESOURCES`].
    pub(crate) contexts: Vec<Context>,
}

impl Assembly {
    pub(crate) fn new(api: &Api, metrics: &Arc<Metrics>, scope: &Scope) -> Self {
        let memory = Arc::new(Memory::default());
        let pending = Arc::new(PendingJobs::new(RESOURCES.len()));
        let kinds = watch::kinds(scope.site.gang.as_ref());
        let cache = Cache::new(
            &kinds,
            Arc::clone(&memory),
            Arc::clone(&pending),
            Arc::clone(metrics),
            RESOURCES.iter().map(resource),
        );
        let watch = Watch {
            api: api.clone(),
            namespace: scope.namespace.clone(),
            cache: Arc::new(cache),
            memory,
            metrics: Arc::clone(metrics),
            discovery: Arc::default(),
            pages: watch::pages(),
            texts: Arc::default(),
        };
        let turns = Arc::new(FairTurns::default());
        let large_jobs = Arc::new(LargeJobs::default());
        let context = |served: &'static Resource| Context {
            api: api.clone(),
            served,
            resource: resource(served),
            site: scope.site.clone(),
            cache: Arc::clone(&watch.cache),
            memory: Arc::clone(&watch.memory),
            pending: Arc::clone(&pending),
            metrics: Arc::clone(metrics),
            queue: metrics.queue(),
            priorities: Priorities::default(),
            gang_apis: GangApis::default(),
            turns: Arc::clone(&turns),
            watch_lag_max: WATCH_LAG_MAX,
            dropped: Dropped::default(),
            clock: scope.clock,
            nonce: scope.nonce,
            keys: scope.keys,
            large_jobs: Arc::clone(&large_jobs),
            long_passes: Semaphore::new(usize::from(scope.concurrency / 4 * 3).max(1)),
        };
        let contexts = RESOURCES.iter().map(context).collect();
        Self {
            watch,
            pending,
            kinds,
            contexts,
        }
    }
}

/// Waits until the cluster serves a resource, then runs `control` beside the watches that only its jobs
/// need. Asks to be told of what the cluster serves at once, not when it is polled first.
pub(crate) fn serve<C: Future<Output = ()>>(
    watch: Watch,
    served: &'static Resource,
    stop: Stop,
    control: impl FnOnce() -> C,
) -> impl Future<Output = ()> {
    let looks = (!served.is_required).then(|| watch.discovery.looks());
    async move {
        if let Some(looks) = looks {
            let resource = resource(served);
            tokio::select! {
                biased;
                () = watch.wait_until_served(&resource, looks) => {}
                () = stop => return,
            }
        }
        let more = watch.cache.add_kinds(served.also_makes).into_iter();
        let more = more.map(|kind| watch.clone().children(kind));
        tokio::select! {
            biased;
            () = control() => {}
            () = forever(join_all(more)) => {}
        }
    }
}

/// Never returns, not even for an empty set of watches.
pub(crate) async fn forever<T>(watches: impl Future<Output = T>) {
    watches.await;
    std::future::pending().await
}

pub(crate) fn resource(served: &Resource) -> ApiResource {
    wire::named_resource(served.group, served.version, served.kind, served.plural)
}
