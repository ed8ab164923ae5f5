//! Objects of one kind as they change: a list, and watches from where it ended. Decides what happens when a watch
//! ends, when the API server is away, and when the cluster does not serve the kind. Must not know who listens.

use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use kube::Api;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;

use super::WATCH_SECS;

/// Pauses after a failure double from the first to the last of these.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(8);
/// A watch that has lasted this long was not refused.
const SETTLED: Duration = RETRY_MIN;
/// A list, or the beginning of a watch, takes no longer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Between two looks for a kind that the cluster does not serve.
const UNSERVED_RETRY: Duration = Duration::from_secs(60);

/// Pauses between looks for what cannot be followed.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: RETRY_MIN }
    }
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

/// What is followed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) labels: String,
    pub(crate) fields: String,
    /// `apiVersion` and `kind`, which a list leaves out of its objects.
    pub(crate) kind: Option<(String, &'static str)>,
    /// What it is that somebody may not, in words.
    pub(crate) doing: String,
}

/// What has happened to the objects.
#[derive(Debug)]
pub(crate) enum Change {
    /// These are all of them now; whether they can be followed is not known yet.
    Listed(Vec<Value>),
    /// They can be followed.
    Followed,
    /// This one was created or changed.
    Is(Value),
    /// This one is gone.
    Gone(Value),
    /// They cannot be read, for this reason; what is known may be old.
    Lost(kube::Error),
}

/// Tells of the objects until the listener says that it listens no more.
pub(crate) async fn follow<F: Future<Output = bool>>(
    target: Target,
    tell: impl FnMut(Change) -> F,
) {
    let mut pauses = Pauses::default();
    let mut follower = Follower {
        target,
        tell,
        is_lost: false,
    };
    loop {
        let began = Instant::now();
        let ended = follower.list_and_watch(&mut pauses).await;
        let pause = match ended {
            Ended::Unheard => return,
            // This is no failure, and the next one is no later for it.
            Ended::Unserved => UNSERVED_RETRY,
            // The next list has what the watch has missed.
            Ended::Failed(kube::Error::Api(status)) if status.code == 410 => {
                pauses.after(began.elapsed())
            }
            Ended::Failed(error) => {
                if follower.tell(Change::Lost(error)).await.is_err() {
                    return;
                }
                pauses.after(began.elapsed())
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Why the objects are not followed any more.
enum Ended {
    /// Nobody listens any more.
    Unheard,
    /// The cluster does not serve this kind; it may do so later.
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

struct Follower<T> {
    target: Target,
    tell: T,
    /// The listener was told that the objects cannot be followed.
    is_lost: bool,
}

impl<T: FnMut(Change) -> F, F: Future<Output = bool>> Follower<T> {
    async fn tell(&mut self, change: Change) -> Result<(), Ended> {
        match change {
            Change::Lost(_) => self.is_lost = true,
            Change::Listed(_) => {}
            Change::Followed | Change::Is(_) | Change::Gone(_) => self.is_lost = false,
        }
        match (self.tell)(change).await {
            true => Ok(()),
            false => Err(Ended::Unheard),
        }
    }

    async fn list_and_watch(&mut self, pauses: &mut Pauses) -> Ended {
        let mut version = match self.list().await {
            Ok(version) => version,
            Err(ended) => return ended,
        };
        loop {
            let began = Instant::now();
            if let Err(ended) = self.watch(&mut version).await {
                return ended;
            }
            // A proxy may end every watch at once; the next one goes on where this one ended.
            tokio::time::sleep(pauses.after(began.elapsed())).await;
        }
    }

    /// Returns from where on to watch.
    async fn list(&mut self) -> Result<String, Ended> {
        let Target { labels, fields, .. } = &self.target;
        let params = ListParams::default().labels(labels).fields(fields);
        let list = within(ANSWER_MAX, self.target.api.list(&params)).await;
        let list = match list.map_err(Ended::from) {
            Ok(list) => list,
            Err(Ended::Unserved) => {
                self.tell(Change::Listed(Vec::new())).await?;
                self.tell(Change::Followed).await?;
                return Err(Ended::Unserved);
            }
            Err(ended) => return Err(ended),
        };
        let version = list.metadata.resource_version.unwrap_or_default();
        let objects = list.items.into_iter();
        let objects = objects.map(|object| self.target.whole(object)).collect();
        self.tell(Change::Listed(objects)).await?;
        Ok(version)
    }

    async fn watch(&mut self, version: &mut String) -> Result<(), Ended> {
        let Target { labels, fields, .. } = &self.target;
        let params = WatchParams::default().labels(labels).fields(fields);
        let params = params.timeout(WATCH_SECS);
        let api = self.target.api.clone();
        let events = within(ANSWER_MAX, api.watch(&params, version)).await?;
        futures::pin_mut!(events);
        // The API server ends it before; a connection that is dead says nothing.
        let latest = Duration::from_secs(WATCH_SECS.into()) + ANSWER_MAX;
        let latest = tokio::time::Instant::now() + latest;
        loop {
            let next = async {
                let next = tokio::time::timeout_at(latest, events.try_next()).await;
                next.unwrap_or(Ok(None))
            };
            let event = match self.is_lost {
                false => Ok(next.await),
                true => tokio::time::timeout(SETTLED, next).await,
            };
            let change = match event {
                // Nobody refuses the watch, so what is known is what there is.
                Err(_) => Change::Followed,
                Ok(event) => match event? {
                    None => return Ok(()),
                    Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                        Change::Is(self.target.whole(object))
                    }
                    Some(WatchEvent::Deleted(object)) => Change::Gone(self.target.whole(object)),
                    Some(WatchEvent::Bookmark(mark)) => {
                        *version = mark.metadata.resource_version;
                        continue;
                    }
                    Some(WatchEvent::Error(status)) => {
                        return Err(Ended::Failed(kube::Error::Api(status)));
                    }
                },
            };
            if let Change::Is(object) | Change::Gone(object) = &change
                && let Some(newer) = object["metadata"]["resourceVersion"].as_str()
            {
                newer.clone_into(version);
            }
            self.tell(change).await?;
        }
    }
}

/// A machine that slept, or a network that was cut, leaves connections on which nothing ever comes.
async fn within<T>(
    most: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let answer = tokio::time::timeout(most, request).await;
    answer.unwrap_or_else(|late| Err(kube::Error::Service(Box::new(late))))
}

impl Target {
    fn whole(&self, object: DynamicObject) -> Value {
        let mut object = serde_json::to_value(object).unwrap_or_default();
        if let Some((version, kind)) = &self.kind {
            object["apiVersion"] = version.as_str().into();
            object["kind"] = (*kind).into();
        }
        object
    }
}

#[cfg(test)]
mod tests;
