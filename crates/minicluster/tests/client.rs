//! The real kube client over the cluster in a value: each verb once, as a controller uses it.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is a shell of its own: it has the clock that the crate has not"
)]

use std::pin::pin;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::watcher::{self, Event, watcher};
use minicluster::service::Shared;
use minicluster::{Cluster, Config};
use serde_json::json;

fn shared() -> Shared {
    let logs = |_| -> minicluster::service::LogStream { Box::pin(futures::stream::empty()) };
    Shared::new(Cluster::new(Config::default()), Timestamp::now, logs)
}

fn map(name: &str, value: &str) -> ConfigMap {
    let object =
        json!({"metadata": {"name": name, "labels": {"app": "x"}}, "data": {"key": value}});
    serde_json::from_value(object).expect("it is a ConfigMap")
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() -> anyhow::Result<()> {
    let client = kube::Client::new(shared().service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let made = maps.create(&PostParams::default(), &map("a", "1")).await?;
    assert!(made.metadata.uid.is_some());
    let error = maps.create(&PostParams::default(), &map("a", "1")).await;
    assert!(matches!(error, Err(kube::Error::Api(status)) if status.code == 409));

    let patch = json!({"data": {"key": "2", "other": "3"}});
    let patched = maps
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    assert_eq!(patched.data.as_ref().map(|data| data.len()), Some(2));
    let mut stale = made;
    stale.data = None;
    let error = maps.replace("a", &PostParams::default(), &stale).await;
    assert!(matches!(error, Err(kube::Error::Api(status)) if status.code == 409));

    assert_eq!(
        maps.list(&ListParams::default().labels("app=x"))
            .await?
            .items
            .len(),
        1
    );
    maps.delete("a", &DeleteParams::default()).await?;
    assert!(maps.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_watch_tells_what_happens_in_order() -> anyhow::Result<()> {
    let client = kube::Client::new(shared().service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let start = maps.list(&ListParams::default()).await?;
    let version = start.metadata.resource_version.unwrap_or_default();
    let mut events = pin!(
        maps.watch(&WatchParams::default().labels("app=x"), &version)
            .await?
    );
    maps.create(&PostParams::default(), &map("a", "1")).await?;
    let patch = json!({"metadata": {"labels": {"app": "y"}}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    assert!(matches!(
        events.try_next().await?,
        Some(WatchEvent::Added(_))
    ));
    assert!(matches!(
        events.try_next().await?,
        Some(WatchEvent::Deleted(_))
    ));
    Ok(())
}

#[tokio::test]
async fn the_runtime_streams_lists() -> anyhow::Result<()> {
    let client = kube::Client::new(shared().service(), "default");
    let pods: Api<Pod> = Api::default_namespaced(client);
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
    }
    let config = watcher::Config::default().streaming_lists();
    let mut events = pin!(watcher(pods.clone(), config));
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        match event? {
            Event::InitApply(pod) => seen.push(pod.metadata.name.unwrap_or_default()),
            Event::InitDone => break,
            _ => {}
        }
    }
    assert_eq!(seen, ["a", "b"]);
    pods.delete("a", &DeleteParams::default()).await?;
    assert!(matches!(events.next().await, Some(Ok(Event::Delete(_)))));
    Ok(())
}
