//! The operator without a runtime of its own, for the simulator: whoever calls decides which pass runs
//! when, and may drop any of it at any time. All else is the operator's own code.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dialects::RESOURCES;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use kube::runtime::reflector::{ObjectRef, Store};
use planner::Kind;

use crate::api::Api;
use crate::assembly::{Assembly, forever, resource, serve};
use crate::context::Context;
use crate::error::{Error, chain};
use crate::metrics::Metrics;
use crate::reconcile::reconcile;
use crate::retry::error_policy;
use crate::scope::Scope;
pub use crate::tenure::Tenure;
use crate::watch;
use crate::wire::UserJob;

/// One operator.
pub struct Stepwise {
    resources: Vec<Arc<Served>>,
}

struct Served {
    context: Arc<Context>,
    /// Known once the cluster serves the resource.
    store: OnceLock<Store<UserJob>>,
}

/// A job to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRef {
    /// Index into [`RESOURCES`].
    pub resource: usize,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How a pass ended.
#[derive(Clone, Debug)]
pub struct PassEnd {
    /// When the next is due without an event.
    pub requeue_after: Option<Duration>,
    /// Why it failed.
    pub error: Option<String>,
    /// It failed because muster has a bug: a plan that violates a law, or a panic.
    pub is_bug: bool,
}

/// Called with each job that must be reconciled.
pub type Enqueue = Arc<dyn Fn(JobRef) + Send + Sync>;

impl Stepwise {
    /// An operator, and what must run beside its passes: its watches, and what feeds `enqueue`. It writes as
    /// long as its tenure lasts.
    pub fn new(
        client: kube::Client,
        tenure: Tenure,
        scope: &Scope,
        enqueue: &Enqueue,
    ) -> (Self, Vec<BoxFuture<'static, ()>>) {
        let api = Api::new(client, Arc::default()).during(tenure);
        let metrics = Arc::new(Metrics::new());
        let parts = Assembly::new(&api, &metrics, scope);
        let mut beside: Vec<BoxFuture<'static, ()>> = Vec::new();
        let mut resources = Vec::new();
        for (index, context) in parts.contexts.into_iter().enumerate() {
            let served = Arc::new(Served {
                context: Arc::new(context),
                store: OnceLock::new(),
            });
            resources.push(Arc::clone(&served));
            let (pending, of_jobs) = (Arc::clone(&parts.pending), parts.watch.clone());
            let enqueue = Arc::clone(enqueue);
            let never = futures::future::pending().boxed().shared();
            let feed = serve(
                parts.watch.clone(),
                &RESOURCES[index],
                never,
                move || async move {
                    let events = pending.subscribe(index).map(stream::iter).flatten();
                    let events =
                        events.map(|key| (key.namespace.to_string(), key.name.to_string()));
                    let (store, jobs) = of_jobs.job_stream(&resource(&RESOURCES[index]), |_| {});
                    let known = served.store.set(store).is_ok();
                    debug_assert!(known, "a resource is served once");
                    let jobs = jobs.map(|job| {
                        let key = job.key();
                        (key.namespace.to_string(), key.name.to_string())
                    });
                    let both = stream::select(events, jobs);
                    both.for_each(|(namespace, name)| {
                        enqueue(JobRef {
                            resource: index,
                            namespace,
                            name,
                        });
                        std::future::ready(())
                    })
                    .await;
                },
            );
            beside.push(feed.boxed());
        }
        let is_rare = |kind: &Kind| !parts.kinds.contains(kind);
        for kind in watch::RARE_KINDS.into_iter().filter(is_rare) {
            beside.push(parts.watch.clone().rare_children(kind).boxed());
        }
        for kind in parts.kinds {
            beside.push(parts.watch.clone().children(kind).boxed());
        }
        let discovery = Arc::clone(&parts.watch.discovery);
        beside.push(async move { forever(discovery.run(&api)).await }.boxed());
        (Self { resources }, beside)
    }

    /// One pass over a job; none if it is not known.
    pub fn pass(&self, job: &JobRef) -> Option<BoxFuture<'static, PassEnd>> {
        let served = &self.resources[job.resource];
        let context = Arc::clone(&served.context);
        let key = ObjectRef::<UserJob>::new_with(&job.name, context.resource.clone());
        let stored = served.store.get()?.get(&key.within(&job.namespace))?;
        Some(
            async move {
                match reconcile(Arc::clone(&stored), Arc::clone(&context)).await {
                    Ok(requeue_after) => PassEnd {
                        requeue_after,
                        error: None,
                        is_bug: false,
                    },
                    Err(error) => PassEnd {
                        requeue_after: error_policy(&stored, &error, &context),
                        is_bug: matches!(
                            error,
                            Error::InvariantViolated { .. } | Error::Panicked { .. }
                        ),
                        error: Some(chain(&error)),
                    },
                }
            }
            .boxed(),
        )
    }
}
