//! Objects of a cluster, or runs on this machine, kept up to date without asking again and again: a watch of the
//! API, or of the directory of runs. Decides what happens when a watch ends, when the API server is away, and when
//! its user may not read what is watched. Must not know who looks at the objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use contract::labels::JOB_UID_LABEL;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Backend, Source, WATCH_SECS, api, explain, resource, stored};
use crate::manifest;
use crate::state;
use crate::state::changes::Changes;
use crate::view::JobView;

/// Pauses after a failure double from the first to the last of these.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(8);

/// Objects by their UID, and what keeps them from being up to date.
#[derive(Debug, Default)]
struct Known {
    objects: BTreeMap<String, Value>,
    trouble: Option<String>,
    is_listed: bool,
}

/// Objects of one kind, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Watched {
    known: Arc<Mutex<Known>>,
    task: JoinHandle<()>,
}

/// Tells whoever looks that something has changed.
pub(crate) type Bell = watch::Sender<()>;

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watched {
    pub(crate) fn objects(&self) -> Vec<Value> {
        locked(&self.known).objects.values().cloned().collect()
    }

    pub(crate) fn get(&self, uid: &str) -> Option<Value> {
        locked(&self.known).objects.get(uid).cloned()
    }

    /// Why the objects may be old, or are not there at all.
    pub(crate) fn trouble(&self) -> Option<String> {
        locked(&self.known).trouble.clone()
    }

    /// The objects have been read at least once, or cannot be.
    pub(crate) fn has_answer(&self) -> bool {
        let known = locked(&self.known);
        known.is_listed || known.trouble.is_some()
    }

    fn start(source: Target, bell: Bell) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let task = tokio::spawn(keep(source, Arc::clone(&known), bell));
        Self { known, task }
    }
}

fn locked(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is watched.
struct Target {
    api: kube::Api<DynamicObject>,
    labels: String,
    fields: String,
    /// Written into each object: a list leaves it out.
    kind: Option<(String, &'static str)>,
    doing: String,
}

impl Backend {
    /// The jobs of every dialect; of all namespaces when `all`.
    pub(crate) fn watch_jobs(&self, all: bool, bell: &Bell) -> Vec<Watched> {
        let Source::Live(client) = &self.source else {
            return vec![watch_records(bell.clone())];
        };
        let namespace = (!all).then_some(self.namespace.as_str());
        let place = namespace.map_or_else(
            || "in all namespaces".to_owned(),
            |name| format!("in namespace {name}"),
        );
        let watched = stored().map(|dialect| {
            let target = Target {
                api: api(client, &resource(dialect), namespace),
                labels: String::new(),
                fields: String::new(),
                kind: Some((manifest::api_version(dialect), dialect.kind)),
                doing: format!(
                    "list and watch {}.{} {place}",
                    dialect.plural, dialect.group
                ),
            };
            Watched::start(target, bell.clone())
        });
        watched.collect()
    }

    /// The pods of a job; none for a run that is recorded.
    pub(crate) fn watch_pods(&self, job: JobView<'_>, bell: &Bell) -> Option<Watched> {
        let Source::Live(client) = &self.source else {
            return None;
        };
        let target = Target {
            api: api(
                client,
                &ApiResource::erase::<Pod>(&()),
                Some(job.namespace()),
            ),
            labels: format!("{JOB_UID_LABEL}={}", job.uid()),
            fields: String::new(),
            kind: None,
            doing: format!("list and watch pods in namespace {}", job.namespace()),
        };
        Some(Watched::start(target, bell.clone()))
    }

    /// The events of the job's namespace that are about it or about pods; none for a run that is recorded.
    pub(crate) fn watch_events(&self, job: JobView<'_>, bell: &Bell) -> Vec<Watched> {
        let Source::Live(client) = &self.source else {
            return Vec::new();
        };
        let of = |fields: String| {
            let target = Target {
                api: api(
                    client,
                    &ApiResource::erase::<Event>(&()),
                    Some(job.namespace()),
                ),
                labels: String::new(),
                fields,
                kind: None,
                doing: format!("list and watch events in namespace {}", job.namespace()),
            };
            Watched::start(target, bell.clone())
        };
        let about_job = format!("involvedObject.uid={}", job.uid());
        vec![of(about_job), of("involvedObject.kind=Pod".to_owned())]
    }
}

async fn keep(target: Target, known: Arc<Mutex<Known>>, bell: Bell) {
    let mut pause = RETRY_MIN;
    loop {
        let ended = list_and_watch(&target, &known, &bell, &mut pause).await;
        if let Err(error) = ended {
            let text = match error {
                // No such kind in this cluster, so no jobs of it.
                kube::Error::Api(status) if status.code == 404 => None,
                // The watch was too old; a list begins anew.
                kube::Error::Api(status) if status.code == 410 => continue,
                error => Some(format!("{:#}", explain(error, &target.doing))),
            };
            locked(&known).trouble = text;
            locked(&known).is_listed = true;
            bell.send_replace(());
            // An API server that is away is not asked all the time.
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(RETRY_MAX);
        }
    }
}

async fn list_and_watch(
    target: &Target,
    known: &Mutex<Known>,
    bell: &Bell,
    pause: &mut Duration,
) -> Result<(), kube::Error> {
    let params = ListParams::default()
        .labels(&target.labels)
        .fields(&target.fields);
    let list = target.api.list(&params).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    {
        let objects = list
            .items
            .into_iter()
            .filter_map(|object| target.object(object));
        let mut known = locked(known);
        known.objects = objects.collect();
        known.trouble = None;
        known.is_listed = true;
    }
    bell.send_replace(());
    *pause = RETRY_MIN;
    let params = WatchParams::default()
        .labels(&target.labels)
        .fields(&target.fields)
        .timeout(WATCH_SECS);
    // A watch ends after a while; the next one goes on where it ended.
    loop {
        let events = target.api.watch(&params, &version).await?;
        futures::pin_mut!(events);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.metadata.resource_version.clone().unwrap_or(version);
                    if let Some((uid, object)) = target.object(object) {
                        locked(known).objects.insert(uid, object);
                    }
                }
                WatchEvent::Deleted(object) => {
                    version = object.metadata.resource_version.clone().unwrap_or(version);
                    let uid = object.metadata.uid.unwrap_or_default();
                    locked(known).objects.remove(&uid);
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
            bell.send_replace(());
        }
        // A proxy may end every watch at once; nothing is missed meanwhile.
        tokio::time::sleep(RETRY_MIN).await;
    }
}

impl Target {
    fn object(&self, object: DynamicObject) -> Option<(String, Value)> {
        let uid = object.metadata.uid.clone()?;
        let mut object = serde_json::to_value(object).ok()?;
        if let Some((version, kind)) = &self.kind {
            object["apiVersion"] = version.as_str().into();
            object["kind"] = (*kind).into();
        }
        Some((uid, object))
    }
}

/// The runs on this machine. Those before today are jobs like any other.
fn watch_records(bell: Bell) -> Watched {
    let known = Arc::new(Mutex::new(Known::default()));
    let kept = Arc::clone(&known);
    let task = tokio::spawn(async move {
        if let Err(error) = keep_records(&kept, &bell).await {
            locked(&kept).trouble = Some(format!("{error:#}"));
            bell.send_replace(());
        }
    });
    Watched { known, task }
}

async fn keep_records(known: &Mutex<Known>, bell: &Bell) -> Result<()> {
    loop {
        // Looked for before the runs are read: nothing happens unseen in between.
        let changes = Changes::of(&state::run_directories()?)?;
        let records = state::records()?;
        let jobs = records.iter().flat_map(state::Record::jobs);
        let jobs = jobs.map(|job| (JobView(job).uid().to_owned(), job.clone()));
        {
            let mut known = locked(known);
            known.objects = jobs.collect();
            known.is_listed = true;
        }
        bell.send_replace(());
        changes
            .next()
            .await
            .map_err(|error| anyhow!("cannot watch the runs: {error}"))?;
    }
}
