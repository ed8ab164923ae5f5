//! Watches. Decides what is listed: only objects that carry our labels, and never Secrets. Feeds the
//! cache, and forgets jobs that are gone.
//!
//! All lists are quorum reads. kube's streaming lists ask for `resourceVersion=0`, which an API server
//! may answer from a cache that is older than what we know, so absence in them proves nothing.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, FuturesUnordered, Stream, StreamExt as _};
use kube::core::{ApiResource, DynamicObject, Status};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use planner::Kind;
use planner::site::{GangApi, GangScheduler};
use serde::de::Error as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::api::{Api, Target};
use crate::backoff::WatchBackoff;
use crate::cache::Cache;
use crate::discovery::{Discovery, Seen};
use crate::encoding::{Encoded, Encoding};
use crate::error::chain;
use crate::job_texts::JobTexts;
use crate::list_watch::{Reader, Source, list_watch};
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::object_index::ObjectIndex;
use crate::watch_gap::WatchGap;
use crate::wire::{self, ObjectKey, Reading, UserJob};

/// Pages of lists that are in memory at once, over all kinds.
const PAGES_AT_ONCE: usize = 2;
/// Between two requests for an object that a relist did not show.
const CONFIRM_RETRY: Duration = Duration::from_secs(1);
/// Between two lists that were asked for because there is room again for what was left out. Anybody may
/// write and delete objects, and until the next list the jobs of their namespace wait.
const RELIST_PAUSE: Duration = Duration::from_secs(60);
/// Children wait this long for the lists of jobs: without the jobs, nobody seems to own them.
const JOBS_FIRST: Duration = Duration::from_secs(5);

/// What a watch needs.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) api: Api,
    /// One namespace, or all.
    pub(crate) namespace: Option<String>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) pages: Arc<Semaphore>,
    pub(crate) texts: Arc<JobTexts>,
}

/// How many pages of lists may be in memory.
pub(crate) fn pages() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(PAGES_AT_ONCE))
}

/// The kinds of children that are watched.
pub(crate) fn kinds(gang: Option<&GangScheduler>) -> Vec<Kind> {
    let always = [Kind::Pod, Kind::Job, Kind::Service, Kind::ConfigMap];
    let gang = gang.map(|scheduler| Kind::PodGroup(scheduler.api()));
    always.into_iter().chain(gang).collect()
}

/// Kinds that few clusters have, or few jobs. They are watched once a job needs one.
pub(crate) const RARE_KINDS: [Kind; 5] = [
    Kind::NetworkPolicy,
    Kind::PodGroup(GangApi::Volcano),
    Kind::PodGroup(GangApi::SchedulerPlugins),
    Kind::PodGroup(GangApi::T9k),
    Kind::PodGroup(GangApi::Native),
];

impl Watch {
    /// Watches children of a kind as soon as a job needs one.
    pub(crate) async fn rare_children(self, kind: Kind) {
        self.cache.kind_requested(&kind).await;
        // Few jobs have one, so the others must not wait for it.
        self.follow(&kind, &Arc::default()).await;
    }

    /// Watches children of one kind, once the jobs are known. While they cannot be watched, jobs wait.
    pub(crate) async fn children(self, kind: Kind) {
        let gap = Arc::default();
        tokio::select! {
            biased;
            () = self.follow(&kind, &gap) => {}
            () = self.hold_without(&kind, &gap) => {}
        }
    }

    async fn follow(&self, kind: &Kind, gap: &Arc<WatchGap>) {
        let jobs = tokio::time::timeout(JOBS_FIRST, self.cache.jobs_listed());
        if jobs.await.is_err() {
            tracing::warn!("jobs are not listed yet; watching their {}s", kind.as_str());
        }
        let mut next_relist = Instant::now();
        loop {
            let relist = async {
                tokio::time::sleep_until(next_relist).await;
                self.cache.relist_requested(kind).await;
            };
            tokio::select! {
                biased;
                () = self.watch_kind(kind, gap) => return,
                () = relist => {
                    tracing::info!("listing {}s again", kind.as_str());
                    next_relist = Instant::now() + RELIST_PAUSE;
                }
            }
        }
    }

    /// Never returns.
    async fn hold_without(&self, kind: &Kind, gap: &WatchGap) {
        loop {
            gap.long().await;
            self.cache.set_unlisted(kind);
            gap.over().await;
        }
    }

    async fn watch_kind(&self, kind: &Kind, gap: &Arc<WatchGap>) {
        let resource = wire::resource(kind);
        let (label, value) = wire::watch_label(*kind == Kind::Pod);
        let of_kind = kind.clone();
        let read: Reader<Reading> = Arc::new(move |object| {
            let reading = wire::read(&of_kind, object)?;
            let version = reading.child.version;
            Ok((reading, version))
        });
        let mut source = self.source(&resource, format!("{label}={value}"), read);
        source.encoding = wire::encoding(kind);
        source.gap = Arc::clone(gap);
        let events = list_watch(source);
        let mut events = pin!(events.backoff(WatchBackoff::default()));
        let mut confirmations = FuturesUnordered::new();
        let mut logged_code = None;
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                Some(()) = confirmations.next() => continue,
            };
            match event {
                Some(Ok(event)) => {
                    logged_code = None;
                    let doubtful = self.handle_event(kind, event).into_iter();
                    confirmations.extend(doubtful.map(|key| self.confirm(kind, &resource, key)));
                }
                Some(Err(error)) => {
                    // A missing API stays missing: log it once.
                    let code = status_code(&error);
                    if code.is_none() || code != logged_code {
                        log_watch_error(kind.as_str(), &error);
                    }
                    logged_code = code;
                    self.on_watch_error(kind, &error, gap);
                }
                None => return,
            }
        }
    }

    /// Returns the keys of objects that must be asked for one by one.
    fn handle_event(&self, kind: &Kind, event: Event<Reading>) -> Vec<ObjectKey> {
        match event {
            Event::Init => self.cache.relist_started(kind),
            Event::InitApply(reading) => {
                self.count_unreadable(kind, &reading);
                let child = reading.child;
                let key = child.key.clone();
                self.cache
                    .update(kind, &key, |index| index.relist_applied(child));
            }
            Event::InitDone => return self.cache.relist_done(kind),
            Event::Apply(reading) => {
                self.count_unreadable(kind, &reading);
                let child = reading.child;
                let key = child.key.clone();
                self.cache
                    .update(kind, &key, |index| index.watch_applied(child));
            }
            Event::Delete(Reading { child, .. }) => {
                let update = |index: &mut ObjectIndex| index.watch_deleted(&child);
                self.cache.update(kind, &child.key, update);
            }
        }
        Vec::new()
    }

    /// Asks for an object that we wrote and a relist did not show: the list may be older than the
    /// write, or the object may be gone again.
    async fn confirm(&self, kind: &Kind, resource: &ApiResource, key: ObjectKey) {
        let target = Target {
            resource,
            namespace: &key.namespace,
            name: &key.name,
        };
        loop {
            match self.api.find(target).await {
                Ok(Some(text)) => {
                    if let Ok(child) = wire::child(kind, &text) {
                        self.cache.update(kind, &key, |index| index.response(child));
                    }
                    return;
                }
                Ok(None) => {
                    return self
                        .cache
                        .update(kind, &key, |index| index.absent(&key, None));
                }
                Err(error) if error.is_refusal() => return,
                Err(_) => tokio::time::sleep(CONFIRM_RETRY).await,
            }
        }
    }

    fn count_unreadable(&self, kind: &Kind, reading: &Reading) {
        if reading.unreadable {
            let ObjectKey { namespace, name } = &reading.child.key;
            tracing::warn!(
                %namespace,
                %name,
                "ignoring a part of this {} that has an unknown shape",
                kind.as_str()
            );
            self.metrics.count_undecodable(kind.as_str());
        }
    }

    fn on_watch_error(&self, kind: &Kind, error: &watcher::Error, gap: &WatchGap) {
        if let watcher::Error::WatchFailed(kube::Error::SerdeError(_))
        | watcher::Error::InitialListFailed(kube::Error::SerdeError(_)) = error
        {
            self.metrics.count_undecodable(kind.as_str());
        }
        match status(error) {
            // Without the API there are no objects of this kind. Jobs that need one are refused it.
            Some(status) if status.code == 404 => {
                gap.end();
                self.cache.set_listed(kind);
            }
            Some(status) if matches!(status.code, 401 | 403) => {
                self.cache.set_refused(kind, &status.message);
            }
            _ => {}
        }
    }

    fn source<T>(&self, resource: &ApiResource, labels: String, read: Reader<T>) -> Source<T> {
        use kube::Resource as _;
        Source {
            client: self.api.client(),
            requests: self.api.requests(),
            path: DynamicObject::url_path(resource, self.namespace.as_deref()),
            labels,
            pages: Arc::clone(&self.pages),
            encoding: Encoding::Json,
            read,
            gap: Arc::default(),
        }
    }

    /// Returns once the cluster serves this API.
    pub(crate) async fn wait_until_served(
        &self,
        resource: &ApiResource,
        mut looks: tokio::sync::watch::Receiver<Seen>,
    ) {
        let (plural, group) = (&resource.plural, &resource.group);
        let mut told = false;
        loop {
            if looks.changed().await.is_err() {
                return;
            }
            let why = if looks.borrow_and_update().may_serve(group) {
                match self.api.probe(resource, self.namespace.as_deref()).await {
                    Err(error) if matches!(error.code(), Some(403 | 404)) => chain(&error),
                    _ => break,
                }
            } else {
                "no such group".to_owned()
            };
            if !told {
                tracing::info!(
                    why,
                    "{plural}.{group} is not installed or not accessible; not watching it"
                );
                self.cache.set_jobs_listed(resource);
                told = true;
            }
        }
        if told {
            tracing::info!("{plural}.{group} is served now; watching it");
        }
    }

    /// A store of the jobs of one resource, and a stream of those to reconcile. A job comes out of
    /// the stream only after the store holds it: the store takes in a list as a whole, so the jobs
    /// of a list come out when its last page was read.
    pub(crate) fn job_stream(
        &self,
        resource: &ApiResource,
        forget: impl Fn(&UserJob) + Send + 'static,
    ) -> (
        Store<UserJob>,
        impl Stream<Item = Arc<UserJob>> + Send + 'static,
    ) {
        let writer = reflector::store::Writer::<UserJob>::new(resource.clone());
        let store = writer.as_reader();
        let (known, stored) = (store.clone(), store.clone());
        let (memory, named) = (Arc::clone(&self.memory), resource.clone());
        let (cache, resource_of_ref) = (Arc::clone(&self.cache), resource.clone());
        let mut listed = HashSet::new();
        let gone_from = Arc::clone(&self.cache);
        let learned = Arc::clone(&self.memory);
        let forget = move |job: &UserJob| {
            gone_from.job_is_gone(job.uid());
            memory.forget(job.uid(), &job.key());
            forget(job);
        };
        let read = self.keeping(resource, &store);
        let jobs = list_watch(self.source(resource, String::new(), read))
            .backoff(WatchBackoff::default())
            .inspect(move |event| match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(job)) => {
                    cache.job_exists(job.uid(), &job.key(), job.has_status());
                    listed.insert(job.uid().to_owned());
                }
                Ok(Event::InitDone) => {
                    listed.iter().for_each(|uid| learned.learn(uid));
                    let known = known.state();
                    let gone = known.iter().filter(|job| !listed.contains(job.uid()));
                    gone.for_each(|job| forget(job));
                    cache.set_jobs_listed(&named);
                }
                Ok(Event::Delete(job)) => forget(job),
                Ok(Event::Apply(job)) => {
                    learned.learn(job.uid());
                    cache.job_exists(job.uid(), &job.key(), job.has_status());
                }
                Err(_) => cache.set_jobs_listed(&named),
            })
            .reflect(writer)
            .map(move |event| match event {
                Ok(Event::InitDone) => in_order(stored.state()),
                Ok(Event::Apply(job)) => {
                    let job = stored.get(&ObjectRef::from_obj_with(&job, resource_of_ref.clone()));
                    job.into_iter().collect()
                }
                Ok(Event::Init | Event::InitApply(_) | Event::Delete(_)) => Vec::new(),
                Err(error) => {
                    log_watch_error("jobs", &error);
                    Vec::new()
                }
            })
            .flat_map(stream::iter);
        (store, jobs)
    }

    /// Reads jobs, and keeps no more of their texts than there is room for, not even of one page.
    fn keeping(&self, resource: &ApiResource, store: &Store<UserJob>) -> Reader<UserJob> {
        let (resource, store) = (resource.clone(), store.clone());
        let texts = Arc::clone(&self.texts);
        Arc::new(move |object| {
            let Encoded::Json(text) = object else {
                return Err(serde_json::Error::custom("a job that is not JSON"));
            };
            let mut job: UserJob = serde_json::from_str(text)?;
            let version = job.version();
            let stored = store.get(&ObjectRef::from_obj_with(&job, resource.clone()));
            job.keep(&texts, stored.as_deref());
            Ok((job, version))
        })
    }
}

/// So that the same list leads to the same passes: the store has no order.
fn in_order(mut jobs: Vec<Arc<UserJob>>) -> Vec<Arc<UserJob>> {
    jobs.sort_by_key(|job| job.key());
    jobs
}

/// An expired watch is routine: `list_watch` lists again.
fn log_watch_error(kind: &str, error: &watcher::Error) {
    match status(error) {
        Some(status) if status.code == 410 => tracing::debug!("watch of {kind} expired"),
        Some(Status {
            code,
            reason,
            message,
            ..
        }) => {
            tracing::warn!(
                code,
                reason,
                message,
                "the API server refused the watch of {kind}"
            );
        }
        None => tracing::warn!(error = chain(error), "watch of {kind} was interrupted"),
    }
}

fn status_code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => None,
    }
}

/// Fails if the cluster does not serve this API. Other errors may pass by themselves.
pub(crate) async fn require(
    api: &Api,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> anyhow::Result<()> {
    match api.probe(resource, namespace).await {
        Err(error) if error.code() == Some(404) => anyhow::bail!(
            "the cluster does not know {}.{} {}: install the CRD first \
             (kubectl apply --server-side -k deploy/crds)",
            resource.plural,
            resource.group,
            resource.version
        ),
        Err(error) => tracing::warn!(error = chain(&error), "cannot check for the CRD"),
        Ok(_) => {}
    }
    Ok(())
}
