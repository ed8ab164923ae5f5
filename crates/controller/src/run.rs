//! From settings to a running operator: health first, then the election, then one controller per
//! resource. Decides the order of starting and stopping; nothing about jobs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use dialects::RESOURCES;
use futures::future::{FutureExt as _, TryFutureExt as _, join_all};
use futures::stream::{self, StreamExt as _};
use kube::runtime::controller::{self, Action as Requeue, Controller};
use kube::runtime::reflector::ObjectRef;
use planner::Kind;
use tokio::task::JoinSet;

use crate::admin::{self, Health};
use crate::api::Api;
use crate::args::Settings;
use crate::assembly::{Assembly, Stop, forever, resource, serve};
use crate::context::Context;
use crate::error::chain;
use crate::lease::Lease;
use crate::metrics::Metrics;
use crate::reconcile::reconcile;
use crate::retry::error_policy;
use crate::scope::Scope;
use crate::watch::{self, Watch};
use crate::wire::{ObjectKey, UserJob};
use crate::{connect, event_loop, metrics_port, signal};

/// Passes that run when the operator is stopped get this long to end.
const GRACE: Duration = Duration::from_secs(8);
/// Runs until a signal stops it, or until the lease is lost.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let config = connect::configuration(&settings.master, &settings.kubeconfig).await?;
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::new()));
    // The election and the reviews must not wait for the jobs' requests.
    let client = || Ok::<_, anyhow::Error>(connect::api(&config)?.counted_by(&metrics.requests));
    let (api, lease_api, reviewer) = (client()?, client()?, client()?);
    for served in RESOURCES.iter().filter(|served| served.is_required) {
        let namespace = settings.scope.namespace.as_deref();
        watch::require(&api, &resource(served), namespace).await?;
    }
    admin::serve(settings.health_port, Arc::clone(&health)).await?;
    metrics_port::serve(&settings.metrics, &metrics, reviewer).await?;
    if settings.metrics.is_any() {
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
        // A process that stood still for a while must not act on what it believed before.
        api: api.during(lease.tenure()),
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
        let Assembly {
            watch,
            pending,
            kinds,
            contexts,
        } = Assembly::new(&self.api, &self.metrics, &scope);
        self.health.leads_with(Arc::clone(&watch.cache));
        let mut watches = JoinSet::new();
        let is_rare = |kind: &Kind| !kinds.contains(kind);
        for kind in watch::RARE_KINDS.into_iter().filter(is_rare) {
            watches.spawn(watch.clone().rare_children(kind));
        }
        for kind in kinds {
            watches.spawn(watch.clone().children(kind));
        }
        let controllers = contexts.into_iter().enumerate().map(|(index, context)| {
            let (pending, of_jobs, stop) = (Arc::clone(&pending), watch.clone(), stop.clone());
            let (served, concurrency, stopped) = (context.served, scope.concurrency, stop.clone());
            serve(watch.clone(), served, stopped, move || async move {
                let events = pending.subscribe(index).map(stream::iter).flatten();
                control(context, &of_jobs, events, concurrency, stop).await;
            })
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
            () = grace => tracing::warn!("some reconciles did not end in time"),
            // Without one of the watches, we would act on a view that gets ever older.
            ended = watches.join_next() => bail!("a watch ended by itself: {ended:?}"),
        }
        ensure!(stop.peek().is_some(), "the controllers ended by themselves");
        Ok(())
    }
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
        metrics.jobs.hide(job.uid());
    });
    let (of_jobs, of_events, not_found) = (
        context.queue.clone(),
        context.queue.clone(),
        context.queue.clone(),
    );
    let jobs = jobs.inspect(move |job| of_jobs.enter(&job.key()));
    let named = resource.clone();
    let events = events.map(move |job| {
        of_events.enter(&job);
        ObjectRef::<UserJob>::new_with(&job.name, named.clone()).within(&job.namespace)
    });
    Controller::for_shared_stream_with(jobs, store, resource)
        .with_config(controller::Config::default().concurrency(concurrency))
        .reconcile_on(events)
        .graceful_shutdown_on(stop)
        .run(
            |job, context| reconcile(job, context).map_ok(requeue),
            |job, error, context| requeue(error_policy(&job, error, &context)),
            Arc::new(context),
        )
        .for_each(move |result| {
            match result {
                // Failed passes were logged by the error policy.
                Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
                // A child may outlive its job, and other resources have jobs of the same name.
                Err(controller::Error::ObjectNotFound(job)) => {
                    let namespace = job.namespace.as_deref().unwrap_or_default();
                    not_found.drop(&ObjectKey::new(namespace, &job.name));
                }
                Err(error) => {
                    tracing::warn!(error = chain(&error), "controller error")
                }
            }
            std::future::ready(())
        })
}

fn requeue(after: Option<Duration>) -> Requeue {
    after.map_or_else(Requeue::await_change, Requeue::requeue)
}
