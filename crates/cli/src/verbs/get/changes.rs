//! Jobs as they change: one watch for each API, from where a list ended. Decides what happens when a watch ends and
//! when the API server does not answer. Must not know how jobs are shown.

use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use crate::backend::{JobApi, Watched};

/// Seconds after which the API server ends a watch, so that one that hangs is noticed.
const WATCH_SECS: u32 = 240;
/// Between two looks for an API that the cluster does not serve.
const UNSERVED_RETRY: Duration = Duration::from_secs(60);

/// Which jobs are followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) labels: String,
    /// Name of the only job, or empty.
    pub(super) name: String,
}

/// What has happened to the jobs of one API.
#[derive(Debug)]
pub(super) enum Change {
    /// These are all of them now; whether they can be followed is not known yet.
    Listed(Vec<Value>),
    /// They can be followed.
    Followed,
    /// This job was created or changed.
    Is(Value),
    /// This job is gone.
    Gone(Value),
    /// They cannot be read, for this reason; what is known may be old.
    Lost(String),
}

/// Tells of the jobs of an API, by its place among all APIs, until nobody listens.
pub(super) async fn follow(
    place: usize,
    api: JobApi,
    wanted: Wanted,
    listener: Sender<(usize, Change)>,
) {
    let mut pauses = Watched::pauses();
    let mut follower = Follower {
        place,
        api,
        wanted,
        listener,
        is_lost: false,
    };
    loop {
        let began = Instant::now();
        let ended = match follower.list().await {
            Ok(mut version) => loop {
                let began = Instant::now();
                if let Err(ended) = follower.watch(&mut version).await {
                    break ended;
                }
                // A proxy may end every watch at once; the next one goes on where this one ended.
                tokio::time::sleep(pauses.after(began.elapsed())).await;
            },
            Err(ended) => ended,
        };
        let pause = match ended {
            Ended::Unheard => return,
            // This is no failure, and the next one is no later for it.
            Ended::Unserved => UNSERVED_RETRY,
            // The next list has what the watch has missed.
            Ended::Failed(kube::Error::Api(status)) if status.code == 410 => {
                pauses.after(began.elapsed())
            }
            Ended::Failed(error) => {
                if follower.tell(Change::Lost(reason(&error))).await.is_err() {
                    return;
                }
                pauses.after(began.elapsed())
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Why the jobs are not followed any more.
enum Ended {
    /// Nobody listens any more.
    Unheard,
    /// The cluster does not serve this API; it may do so later.
    Unserved,
    Failed(kube::Error),
}

impl From<kube::Error> for Ended {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 404 => Self::Unserved,
            error => Self::Failed(error),
        }
    }
}

struct Follower {
    place: usize,
    api: JobApi,
    wanted: Wanted,
    listener: Sender<(usize, Change)>,
    /// The listener was told that the jobs cannot be followed.
    is_lost: bool,
}

impl Follower {
    async fn tell(&mut self, change: Change) -> Result<(), Ended> {
        match change {
            Change::Lost(_) => self.is_lost = true,
            Change::Listed(_) => {}
            Change::Followed | Change::Is(_) | Change::Gone(_) => self.is_lost = false,
        }
        let told = self.listener.send((self.place, change)).await;
        told.map_err(|_| Ended::Unheard)
    }

    /// Returns from where on to watch.
    async fn list(&mut self) -> Result<String, Ended> {
        let params = ListParams {
            label_selector: some(&self.wanted.labels),
            field_selector: some(&fields(&self.wanted)),
            ..ListParams::default()
        };
        let list = match self.api.api.list(&params).await.map_err(Ended::from) {
            Ok(list) => list,
            Err(Ended::Unserved) => {
                self.tell(Change::Listed(Vec::new())).await?;
                self.tell(Change::Followed).await?;
                return Err(Ended::Unserved);
            }
            Err(ended) => return Err(ended),
        };
        let version = list.metadata.resource_version.unwrap_or_default();
        let jobs = list.items.into_iter().map(|job| whole(&self.api, job));
        let jobs = jobs.collect();
        self.tell(Change::Listed(jobs)).await?;
        Ok(version)
    }

    async fn watch(&mut self, version: &mut String) -> Result<(), Ended> {
        let mut params = WatchParams::default().timeout(WATCH_SECS);
        params.label_selector = some(&self.wanted.labels);
        params.field_selector = some(&fields(&self.wanted));
        let api = self.api.api.clone();
        let events = api.watch(&params, version).await?;
        futures::pin_mut!(events);
        loop {
            let event = match self.is_lost {
                false => Ok(events.try_next().await),
                true => tokio::time::timeout(Watched::SETTLED, events.try_next()).await,
            };
            let change = match event {
                // Nobody refuses the watch, so what is known is what there is.
                Err(_) => Change::Followed,
                Ok(event) => match event? {
                    None => return Ok(()),
                    Some(WatchEvent::Added(job) | WatchEvent::Modified(job)) => {
                        Change::Is(whole(&self.api, job))
                    }
                    Some(WatchEvent::Deleted(job)) => Change::Gone(whole(&self.api, job)),
                    Some(WatchEvent::Bookmark(mark)) => {
                        *version = mark.metadata.resource_version;
                        continue;
                    }
                    Some(WatchEvent::Error(status)) => {
                        return Err(Ended::Failed(kube::Error::Api(status)));
                    }
                },
            };
            if let Change::Is(job) | Change::Gone(job) = &change {
                let newer = job["metadata"]["resourceVersion"].as_str();
                newer.unwrap_or_default().clone_into(version);
            }
            self.tell(change).await?;
        }
    }
}

/// A list leaves out what its items are.
fn whole(api: &JobApi, job: DynamicObject) -> Value {
    let mut job = serde_json::to_value(job).unwrap_or_default();
    job["apiVersion"] = api.version.as_str().into();
    job["kind"] = api.kind.into();
    job
}

fn fields(wanted: &Wanted) -> String {
    match wanted.name.as_str() {
        "" => String::new(),
        name => format!("metadata.name={name}"),
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => format!("{:#}", anyhow::anyhow!(other.to_string())),
    }
}
