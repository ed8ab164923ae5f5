//! From settings to a running operator: health first, then the election, then one controller per
//! resource. Decides the order of starting and stopping; nothing about jobs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use dialects::RESOURCES;
use futures::future::{BoxFuture, FutureExt as _, Shared, join_all};
use futures::stream::{self, StreamExt as _};
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::ObjectRef;
use planner::Kind;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::admin::{self, Health};
use crate::api::Api;
use crate::args::Settings;
use crate::cache::Cache;
use crate::context::Context;
use crate::dropped::Dropped;
use crate::error::chain;
use crate::fair_turns::FairTurns;
use crate::lease::Lease;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::pending_jobs::PendingJobs;
use crate::priorities::Priorities;
use crate::reconcile::reconcile;
use crate::retry::error_policy;
use crate::scope::Scope;
use crate::watch::{self, Watch};
use crate::wire::{ObjectKey, UserJob};
use crate::{connect, event_loop, signal, wire};

/// Passes that run when the operator is stopped get this long to end.
const GRACE: Duration = Duration::from_secs(8);
/// A healthy watch does not lag this far behind our own writes.
const WATCH_LAG_MAX: Duration = Duration::from_secs(10);

/// Passes over jobs that are too large to keep: the values of one take some ten times its text.
const LARGE_JOBS: usize = 1;

type Stop = Shared<BoxFuture<'static, ()>>;

/// Runs until a signal stops it, or until the lease is lost.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let config = connect::configuration(&settings.master, &settings.kubeconfig).await?;
    let (api, lease_api) = (connect::api(&config)?, connect::api(&config)?);
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::new()));
    for served in RESOURCES.iter().filter(|served| served.is_required) {
        let namespace = settings.scope.namespace.as_deref();
        watch::require(&api, &resource(served), namespace).await?;
    }
    let ports = (settings.health_port, settings.monitoring_port);
    admin::serve(ports.0, ports.1, Arc::clone(&health), Arc::clone(&metrics)).await?;
    if settings.monitoring_port != 0 {
        tokio::spawn(event_loop::measure(metrics.event_loop_block.clone()));
    }

    let stop: Stop = signal::told_to_stop()?.boxed().shared();
    let mut lease = Lease::new(lease_api, settings.lock_namespace)?;
    tokio::select! {
        won = lease.acquire() => won?,
        () = stop.clone() => return Ok(()),
    }
    tracing::info!("leading");
    health.renewed();
    metrics.is_leader.set(1);
    let operator = Operator {
        api,
        metrics: Arc::clone(&metrics),
        health: Arc::clone(&health),
    };
    let ended = tokio::select! {
        ended = operator.operate(settings.scope, stop) => ended,
        () = lease.keep(|| health.renewed()) => {
            bail!("lost the lease: leaving the jobs to another operator");
        }
    };
    metrics.is_leader.set(0);
    health.resigned();
    lease.release().await;
    ended
}

/// Reconciles jobs through this client until `stop`, without an election: for local mode and tests.
pub async fn operate(
    client: kube::Client,
    scope: Scope,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let operator = Operator {
        api: Api::new(client, Arc::default()),
        metrics: Arc::new(Metrics::new()),
        health: Arc::default(),
    };
    operator.operate(scope, stop.boxed().shared()).await
}

struct Operator {
    api: Api,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

impl Operator {
    async fn operate(self, scope: Scope, stop: Stop) -> anyhow::Result<()> {
        let memory = Arc::new(Memory::default());
        let pending = Arc::new(PendingJobs::new(RESOURCES.len()));
        let kinds = watch::kinds(scope.site.gang.as_ref());
        let cache = Arc::new(Cache::new(
            &kinds,
            Arc::clone(&memory),
            Arc::clone(&pending),
            Arc::clone(&self.metrics),
            RESOURCES.iter().map(resource),
        ));
        self.health.leads_with(Arc::clone(&cache));
        let watch = self.watch(&scope, &cache, &memory);
        let large_jobs = Arc::new(Semaphore::new(LARGE_JOBS));
        let mut watches = JoinSet::new();
        let is_rare = |kind: &Kind| !kinds.contains(kind);
        for kind in watch::RARE_KINDS.into_iter().filter(is_rare) {
            watches.spawn(watch.clone().rare_children(kind));
        }
        for kind in kinds {
            watches.spawn(watch.clone().children(kind));
        }
        let turns = Arc::new(FairTurns::default());
        let controllers = RESOURCES.iter().enumerate().map(|(index, served)| {
            let context = self.context(served, &scope, &watch, &pending, &turns, &large_jobs);
            let (pending, cache) = (Arc::clone(&pending), Arc::clone(&cache));
            let (watch, stop) = (watch.clone(), stop.clone());
            let looks = (!served.is_required).then(|| watch.discovery.looks());
            async move {
                if let Some(looks) = looks {
                    tokio::select! {
                        () = watch.wait_until_served(&context.resource, looks) => {}
                        () = stop.clone() => return,
                    }
                }
                let more = cache.add_kinds(served.also_makes).into_iter();
                let more = more.map(|kind| watch.clone().children(kind));
                let events = pending.subscribe(index).map(stream::iter).flatten();
                let control = control(context, &watch, events, scope.concurrency, stop);
                tokio::select! {
                    () = control => {}
                    () = forever(join_all(more)) => {}
                }
            }
        });
        let discovery = Arc::clone(&watch.discovery);
        // After `stop`, controllers end with their last pass. A pass that hangs must not delay the
        // release of the lease.
        let grace = async {
            stop.clone().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            _ = join_all(controllers) => {}
            () = forever(discovery.run(&self.api)) => {}
            () = grace => tracing::warn!("some reconcile passes did not end in time"),
            // Without one of the watches, we would act on a view that gets ever older.
            ended = watches.join_next() => bail!("a watch ended by itself: {ended:?}"),
        }
        ensure!(stop.peek().is_some(), "the controllers ended by themselves");
        Ok(())
    }

    fn watch(&self, scope: &Scope, cache: &Arc<Cache>, memory: &Arc<Memory>) -> Watch {
        Watch {
            api: self.api.clone(),
            namespace: scope.namespace.clone(),
            cache: Arc::clone(cache),
            memory: Arc::clone(memory),
            metrics: Arc::clone(&self.metrics),
            discovery: Arc::default(),
            pages: watch::pages(),
            texts: Arc::default(),
        }
    }

    fn context(
        &self,
        served: &'static dialects::Resource,
        scope: &Scope,
        watch: &Watch,
        pending: &Arc<PendingJobs>,
        turns: &Arc<FairTurns>,
        large_jobs: &Arc<Semaphore>,
    ) -> Context {
        Context {
            api: self.api.clone(),
            served,
            resource: resource(served),
            site: scope.site.clone(),
            cache: Arc::clone(&watch.cache),
            memory: Arc::clone(&watch.memory),
            pending: Arc::clone(pending),
            metrics: Arc::clone(&self.metrics),
            priorities: Priorities::default(),
            turns: Arc::clone(turns),
            watch_lag_max: WATCH_LAG_MAX,
            dropped: Dropped::default(),
            clock: scope.clock,
            large_jobs: Arc::clone(large_jobs),
        }
    }
}

/// Never returns, not even for an empty set of watches.
async fn forever<T>(watches: impl Future<Output = T>) {
    watches.await;
    std::future::pending().await
}

/// One controller for one resource.
fn control(
    context: Context,
    watch: &Watch,
    events: impl futures::Stream<Item = ObjectKey> + Send + 'static,
    concurrency: u16,
    stop: Stop,
) -> impl Future<Output = ()> {
    let resource = context.resource.clone();
    let metrics = Arc::clone(&context.metrics);
    let (store, jobs) = watch.job_stream(&resource, move |job| {
        metrics.hide_launcher(job.uid());
    });
    let named = resource.clone();
    let events = events.map(move |job| {
        ObjectRef::<UserJob>::new_with(&job.name, named.clone()).within(&job.namespace)
    });
    Controller::for_shared_stream_with(jobs, store, resource)
        .with_config(controller::Config::default().concurrency(concurrency))
        .reconcile_on(events)
        .graceful_shutdown_on(stop)
        .run(reconcile, error_policy, Arc::new(context))
        .for_each(|result| async move {
            match result {
                // Failed passes were logged by the error policy; a child may outlive its job.
                Ok(_)
                | Err(
                    controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_),
                ) => {}
                Err(error) => {
                    tracing::warn!(error = chain(&error), "controller error")
                }
            }
        })
}

fn resource(served: &dialects::Resource) -> kube::core::ApiResource {
    wire::named_resource(served.group, served.version, served.kind, served.plural)
}
