//! Objects of a cluster, or runs on this machine, kept up to date without asking again and again: a watch of the
//! API, or of the directory of runs. Decides what happens when a watch ends, when the API server is away, and when
//! its user may not read what is watched. Must not know who looks at the objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// Pauses between looks for what cannot be followed.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Pauses {
    /// The pause after a look that lasted this long. Only one that has lasted longer than the pause was a success:
    /// who may list and not watch would otherwise list again and again without end.
    pub(crate) fn after(&mut self, lasted: Duration) -> Duration {
        if lasted > self.next {
            self.next = RETRY_MIN;
        }
        let pause = self.next;
        self.next = (2 * pause).min(RETRY_MAX);
        pause
    }
}

/// Objects by their UID, and what keeps them from being up to date.
#[derive(Debug, Default)]
struct Known {
    objects: BTreeMap<String, Value>,
    trouble: Option<String>,
    is_listed: bool,
}

impl Known {
    /// Takes a list over. Returns whether that is news. What kept the objects from being followed may still do so.
    fn take(&mut self, objects: BTreeMap<String, Value>) -> bool {
        let is_news = !self.is_listed || self.objects != objects;
        self.objects = objects;
        self.is_listed = true;
        is_news
    }

    /// Returns whether that is news.
    fn set_trouble(&mut self, trouble: Option<String>) -> bool {
        let is_news = !self.is_listed || self.trouble != trouble;
        self.trouble = trouble;
        self.is_listed = true;
        is_news
    }
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
    /// A watch that has lasted this long was not refused.
    pub(crate) const SETTLED: Duration = RETRY_MIN;

    /// The pauses of whoever follows something by itself.
    pub(crate) fn pauses() -> Pauses {
        Pauses { next: RETRY_MIN }
    }

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
    let mut pauses = Watched::pauses();
    loop {
        let began = Instant::now();
        let error = list_and_watch(&target, &known, &bell, &mut pauses).await;
        let trouble = match error {
            // No such kind in this cluster, so no jobs of it.
            kube::Error::Api(status) if status.code == 404 => Some(None),
            // The watch was too old; a list begins anew.
            kube::Error::Api(status) if status.code == 410 => None,
            error => Some(Some(format!("{:#}", explain(error, &target.doing)))),
        };
        if trouble.is_some_and(|trouble| locked(&known).set_trouble(trouble)) {
            bell.send_replace(());
        }
        // An API server that is away is not asked all the time.
        tokio::time::sleep(pauses.after(began.elapsed())).await;
    }
}

/// Returns why the objects can be followed no more.
async fn list_and_watch(
    target: &Target,
    known: &Mutex<Known>,
    bell: &Bell,
    pauses: &mut Pauses,
) -> kube::Error {
    let params = ListParams::default()
        .labels(&target.labels)
        .fields(&target.fields);
    let list = match target.api.list(&params).await {
        Ok(list) => list,
        Err(error) => return error,
    };
    let mut version = list.metadata.resource_version.unwrap_or_default();
    let objects = list.items.into_iter();
    let objects = objects.filter_map(|object| target.object(object));
    if locked(known).take(objects.collect()) {
        bell.send_replace(());
    }
    // A watch ends after a while; the next one goes on where it ended.
    loop {
        let began = Instant::now();
        if let Err(error) = watch(target, known, bell, &mut version).await {
            return error;
        }
        // A proxy may end every watch at once; nothing is missed meanwhile.
        tokio::time::sleep(pauses.after(began.elapsed())).await;
    }
}

async fn watch(
    target: &Target,
    known: &Mutex<Known>,
    bell: &Bell,
    version: &mut String,
) -> Result<(), kube::Error> {
    let params = WatchParams::default()
        .labels(&target.labels)
        .fields(&target.fields)
        .timeout(WATCH_SECS);
    let events = target.api.watch(&params, version).await?;
    futures::pin_mut!(events);
    let mut is_settled = locked(known).trouble.is_none();
    loop {
        let event = match is_settled {
            true => Ok(events.try_next().await),
            false => tokio::time::timeout(Watched::SETTLED, events.try_next()).await,
        };
        let event = match event {
            Ok(event) => event?,
            // Nobody refuses the watch, so what is known is what there is.
            Err(_) => {
                is_settled = true;
                if locked(known).set_trouble(None) {
                    bell.send_replace(());
                }
                continue;
            }
        };
        let Some(event) = event else {
            return Ok(());
        };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                if let Some(newer) = &object.metadata.resource_version {
                    version.clone_from(newer);
                }
                if let Some((uid, object)) = target.object(object) {
                    locked(known).objects.insert(uid, object);
                }
            }
            WatchEvent::Deleted(object) => {
                if let Some(newer) = &object.metadata.resource_version {
                    version.clone_from(newer);
                }
                let uid = object.metadata.uid.unwrap_or_default();
                locked(known).objects.remove(&uid);
            }
            WatchEvent::Bookmark(mark) => {
                *version = mark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
        bell.send_replace(());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_something_has_lasted_longer_than_the_pause() {
        let mut pauses = Watched::pauses();
        let short: Vec<Duration> = (0..6).map(|_| pauses.after(Duration::ZERO)).collect();
        let expected = [500, 1000, 2000, 4000, 8000, 8000];
        assert_eq!(short, expected.map(Duration::from_millis));
        assert_eq!(pauses.after(RETRY_MAX), RETRY_MAX);
        assert_eq!(pauses.after(Duration::from_secs(240)), RETRY_MIN);
        assert_eq!(pauses.after(Duration::ZERO), 2 * RETRY_MIN);
    }

    #[test]
    fn what_stays_the_same_is_no_news() {
        let mut known = Known::default();
        let objects = BTreeMap::from([("u1".to_owned(), Value::Null)]);
        assert!(known.set_trouble(None), "the first answer, although a 404");
        assert!(!known.set_trouble(None));
        assert!(known.set_trouble(Some("you may not".to_owned())));
        assert!(known.take(objects.clone()));
        assert!(!known.take(objects));
        assert!(!known.set_trouble(Some("you may not".to_owned())));
        assert!(known.set_trouble(None));
    }
}
