//! Objects of a cluster, or runs on this machine, kept up to date without asking again and again: a watch of the
//! API, or of the directory of runs. Decides what is news, and what is said when something keeps the objects from being up
//! to date. Must not know who looks at them.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow};
use contract::labels::JOB_UID_LABEL;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ApiResource;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::following::{Change, Target, follow};
use super::{Backend, Source, api, explain, resource, stored};
use crate::manifest::{self, Api};
use crate::state;
use crate::state::changes::Changes;
use crate::view::JobView;

/// Objects by their UID, and what keeps them from being up to date.
#[derive(Debug, Default)]
struct Known {
    objects: BTreeMap<String, Value>,
    trouble: Option<String>,
    is_listed: bool,
}

impl Known {
    /// Takes a change over. Returns whether that is news.
    fn hear(&mut self, change: Change, doing: &str) -> bool {
        let uid = |object: &Value| {
            let uid = object["metadata"]["uid"].as_str();
            uid.unwrap_or_default().to_owned()
        };
        match change {
            Change::Listed(objects) => {
                let objects = objects.into_iter();
                self.take(objects.map(|object| (uid(&object), object)).collect())
            }
            Change::Followed => self.set_trouble(None),
            Change::Lost(error) => self.set_trouble(Some(format!("{:#}", explain(error, doing)))),
            Change::Is(object) => {
                self.trouble = None;
                self.objects.insert(uid(&object), object);
                true
            }
            Change::Gone(object) => {
                self.trouble = None;
                self.objects.remove(&uid(&object));
                true
            }
        }
    }

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

    fn start(target: Target, bell: Bell) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let kept = Arc::clone(&known);
        let doing = target.doing.clone();
        let tell = move |change| {
            if locked(&kept).hear(change, &doing) {
                bell.send_replace(());
            }
            ready(true)
        };
        let task = tokio::spawn(follow(target, tell));
        Self { known, task }
    }
}

fn locked(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backend {
    /// The jobs of every dialect; of all namespaces when `all`.
    pub(crate) fn watch_jobs(&self, all: bool, bell: &Bell) -> Vec<Watched> {
        let Ok(targets) = self.job_targets(all) else {
            return vec![watch_records(bell.clone())];
        };
        let targets = targets.into_iter();
        targets
            .map(|target| Watched::start(target, bell.clone()))
            .collect()
    }

    /// Where the jobs of each dialect are, to be followed; of all namespaces when `all`. Runs that are recorded do not change.
    pub(crate) fn job_targets(&self, all: bool) -> Result<Vec<Target>> {
        let client = self.live()?;
        let namespace = (!all).then_some(self.namespace.as_str());
        let place = namespace.map_or_else(
            || "in all namespaces".to_owned(),
            |name| format!("in namespace {name}"),
        );
        let target = |dialect: &'static Api| Target {
            api: api(client, &resource(dialect), namespace),
            labels: String::new(),
            fields: String::new(),
            kind: Some((manifest::api_version(dialect), dialect.kind)),
            doing: format!(
                "list and watch {}.{} {place}",
                dialect.plural, dialect.group
            ),
        };
        Ok(stored().map(target).collect())
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
