//! Jobs as they change: one watch for each API, from where a list ended. Decides what happens when a watch ends and
//! when the API server does not answer. Must not know how jobs are shown.

use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use crate::backend::JobApi;

/// Seconds after which the API server ends a watch, so that one that hangs is noticed.
const WATCH_SECS: u32 = 240;
/// Pauses after a failure double from the first to the last of these.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(8);
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
    /// These are all of them now.
    Listed(Vec<Value>),
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
    let mut pause = RETRY_MIN;
    loop {
        let change = match list(&api, &wanted).await {
            Ok((jobs, version)) => {
                pause = RETRY_MIN;
                if listener.send((place, Change::Listed(jobs))).await.is_err() {
                    return;
                }
                match watch(place, &api, &wanted, version, &listener).await {
                    Ok(Ended::Unheard) => return,
                    // The next list has what the watch has missed.
                    Ok(Ended::Expired) => continue,
                    Err(error) => Change::Lost(reason(&error)),
                }
            }
            // The cluster does not serve this API; it may do so later.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                pause = UNSERVED_RETRY;
                Change::Listed(Vec::new())
            }
            Err(error) => Change::Lost(reason(&error)),
        };
        if listener.send((place, change)).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX.max(pause));
    }
}

/// Why a watch ended.
enum Ended {
    /// Nobody listens any more.
    Unheard,
    /// The API server does not know any more what came after the last change.
    Expired,
}

async fn list(api: &JobApi, wanted: &Wanted) -> Result<(Vec<Value>, String), kube::Error> {
    let params = ListParams {
        label_selector: some(&wanted.labels),
        field_selector: some(&fields(wanted)),
        ..ListParams::default()
    };
    let list = api.api.list(&params).await?;
    let version = list.metadata.resource_version.unwrap_or_default();
    let jobs = list.items.into_iter().map(|job| whole(api, job)).collect();
    Ok((jobs, version))
}

async fn watch(
    place: usize,
    api: &JobApi,
    wanted: &Wanted,
    mut version: String,
    listener: &Sender<(usize, Change)>,
) -> Result<Ended, kube::Error> {
    loop {
        let mut params = WatchParams::default().timeout(WATCH_SECS);
        params.label_selector = some(&wanted.labels);
        params.field_selector = some(&fields(wanted));
        let events = api.api.watch(&params, &version).await?;
        futures::pin_mut!(events);
        while let Some(event) = events.try_next().await? {
            let change = match event {
                WatchEvent::Added(job) | WatchEvent::Modified(job) => Change::Is(whole(api, job)),
                WatchEvent::Deleted(job) => Change::Gone(whole(api, job)),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(Ended::Expired),
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            if let Change::Is(job) | Change::Gone(job) = &change {
                let newer = job["metadata"]["resourceVersion"].as_str();
                newer.unwrap_or_default().clone_into(&mut version);
            }
            if listener.send((place, change)).await.is_err() {
                return Ok(Ended::Unheard);
            }
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
