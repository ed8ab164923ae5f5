//! Why a pod on its node does not begin: a volume that cannot be mounted is told of in events alone,
//! never in the pod. Decides when it is worth asking, and what the events prove; what follows is
//! the planner's.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use planner::job::Owner;
use planner::observed::{Pod, PodPhase, Waiting};
use serde::Deserialize;

use crate::api::Target;
use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::chain;
use crate::wire;

/// An ordinary pod has begun by then.
const ORDINARY: SignedDuration = SignedDuration::from_secs(8);
/// A pod that is merely slow (a large image) is asked about less and less often.
const AGAIN_FIRST: Duration = Duration::from_secs(5);
const AGAIN_MAX: Duration = Duration::from_secs(60);
const FAILED_MOUNT: &str = "FailedMount";
/// The kubelet tries again after one, two, four and eight seconds, and then less often.
const TRIED: SignedDuration = SignedDuration::from_secs(12);

/// What was heard of pods that do not begin.
#[derive(Clone, Debug)]
pub(crate) struct MountEvents {
    ask_again: Timestamp,
    delay: Duration,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Events {
    items: Vec<Event>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    message: Option<String>,
    last_timestamp: Option<Time>,
    involved_object: Involved,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Involved {
    uid: Option<String>,
}

/// Says of pods that should have begun why they do not. Returns when to look again.
pub(crate) async fn explain(
    context: &Context,
    owner: &Owner,
    pods: impl Iterator<Item = &mut Pod>,
    now: Timestamp,
) -> Option<Timestamp> {
    let unbegun = |pod: &&mut Pod| {
        pod.phase == PodPhase::Pending
            && !pod.begun
            && !pod.deleting
            && !pod.node.is_empty()
            && pod.waiting.is_none()
    };
    let mut pods: Vec<&mut Pod> = pods.filter(unbegun).collect();
    let oldest = pods.iter().map(|pod| pod.created_at).min()?;
    let due = oldest.saturating_add(ORDINARY).unwrap_or(now);
    if due > now {
        return Some(due);
    }
    let known = context
        .memory
        .with(&owner.uid, |memory| memory.mount_events.clone());
    let mount_events = match known {
        Some(mount_events) if mount_events.ask_again > now => mount_events,
        known => {
            ask(
                context,
                owner,
                known.map(|mount_events| mount_events.delay),
                now,
            )
            .await
        }
    };
    for pod in &mut pods {
        pod.waiting = mount_events.failed_mount(pod);
    }
    Some(mount_events.ask_again)
}

/// A fault is as good as no answer: nothing else of the job depends on it.
async fn ask(
    context: &Context,
    owner: &Owner,
    delay: Option<Duration>,
    now: Timestamp,
) -> MountEvents {
    let events = failed_mounts(context, owner).await.unwrap_or_else(|error| {
        tracing::warn!(
            error = chain(&error),
            "cannot list events of pods that do not start"
        );
        Vec::new()
    });
    let delay = match (events.is_empty(), delay) {
        (true, Some(delay)) => (delay * 2).min(AGAIN_MAX),
        (true, None) | (false, _) => AGAIN_FIRST,
    };
    let mount_events = MountEvents {
        ask_again: now + delay,
        delay,
        events,
    };
    let kept = mount_events.clone();
    context
        .memory
        .with(&owner.uid, |memory| memory.mount_events = Some(kept));
    mount_events
}

async fn failed_mounts(context: &Context, owner: &Owner) -> Result<Vec<Event>, ApiError> {
    let resource = wire::named_resource("", "v1", "Event", "events");
    let target = Target {
        resource: &resource,
        namespace: &owner.namespace,
        name: "",
    };
    let selector = format!("involvedObject.kind=Pod,reason={FAILED_MOUNT}");
    let text = context.api.list_selected(target, &selector).await?;
    let events: Events = serde_json::from_str(&text).map_err(ApiError::Unreadable)?;
    Ok(events.items)
}

impl MountEvents {
    /// A volume that is slow to come is waited for; one whose source does not exist, after the
    /// kubelet has tried for a while, is not.
    fn failed_mount(&self, pod: &Pod) -> Option<Waiting> {
        let about = |event: &&Event| event.involved_object.uid.as_deref() == Some(&pod.uid);
        let newest = self
            .events
            .iter()
            .filter(about)
            .max_by_key(|event| event.last())?;
        let message = newest.message.clone().unwrap_or_default();
        let missing = message.contains("not found") || message.contains("non-existent");
        let tried = newest.last()?.duration_since(pod.created_at);
        (missing && tried >= TRIED).then(|| Waiting {
            reason: FAILED_MOUNT.to_owned(),
            message,
            since: pod.created_at,
        })
    }
}

impl Event {
    fn last(&self) -> Option<Timestamp> {
        self.last_timestamp.as_ref().map(|time| time.0)
    }
}
