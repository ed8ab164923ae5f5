//! Why a pod on its node does not start: kubelets report a volume that cannot be mounted in events
//! alone, never in the pod. Decides when to ask for events, and what they prove; the planner decides
//! what follows.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use planner::job::Owner;
use planner::observed::{Pod, PodPhase, Waiting};
use planner::text;
use serde::Deserialize;

use crate::api::{Api, Target};
use crate::api_error::ApiError;
use crate::backoff::doubled;
use crate::error::chain;
use crate::wire;

/// An ordinary pod has started by then.
const ORDINARY: SignedDuration = SignedDuration::from_secs(8);
/// While no event explains a slow pod (it may pull a large image), the delay doubles.
const AGAIN_FIRST: Duration = Duration::from_secs(5);
const AGAIN_MAX: Duration = Duration::from_secs(60);
const FAILED_MOUNT: &str = "FailedMount";
/// Pods that are asked about at once: what one lacks, its siblings lack, too.
const PODS_MAX: usize = 4;
/// The kubelet tries again after one, two, four and eight seconds, and then less often.
const TRIED: SignedDuration = SignedDuration::from_secs(12);

/// The kubelet names the volume, and what it lacks, in less. Anybody may write longer ones.
const MESSAGE_BYTES_MAX: usize = 512;

/// What the events tell of the pods of one job, and when to ask again.
#[derive(Clone, Debug)]
pub(crate) struct MountEvents {
    next_query: Timestamp,
    delay: Duration,
    /// The newest event of each pod, by UID.
    newest: HashMap<String, FailedMount>,
}

/// What matters of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedMount {
    at: Timestamp,
    /// Why the volume never comes; none if it may only be slow.
    hopeless: Option<String>,
}

#[derive(Deserialize)]
struct Events {
    items: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    last_timestamp: Option<Time>,
}

/// Explains why pods that should have started wait for a volume. Returns when to ask again, and what
/// to keep until then.
pub(crate) async fn explain(
    api: &Api,
    owner: &Owner,
    pods: impl Iterator<Item = &mut Pod>,
    known: Option<MountEvents>,
    now: Timestamp,
) -> (Option<Timestamp>, Option<MountEvents>) {
    let is_slow = |pod: &&mut Pod| {
        pod.phase == PodPhase::Pending
            && !pod.begun
            && !pod.deleting
            && !pod.node.is_empty()
            && pod.waiting.is_none()
    };
    let mut pods: Vec<&mut Pod> = pods.filter(is_slow).collect();
    let Some(oldest) = pods.iter().map(|pod| pod.created_at).min() else {
        return (None, None);
    };
    let due = oldest.saturating_add(ORDINARY).unwrap_or(now);
    if due > now {
        return (Some(due), None);
    }
    let events = match known {
        Some(events) if events.next_query > now => events,
        known => query(api, owner, &pods, known.map(|known| known.delay), now).await,
    };
    for pod in &mut pods {
        pod.waiting = events.failed_mount(pod);
    }
    (Some(events.next_query), Some(events))
}

/// Asks for the events of these pods. A failed request counts as no event: nothing else of the job
/// depends on it.
async fn query(
    api: &Api,
    owner: &Owner,
    pods: &[&mut Pod],
    delay: Option<Duration>,
    now: Timestamp,
) -> MountEvents {
    let mut newest = HashMap::new();
    for pod in pods.iter().take(PODS_MAX) {
        match failed_mount(api, owner, &pod.uid).await {
            Ok(event) => newest.extend(event.map(|event| (pod.uid.clone(), event))),
            Err(error) => tracing::warn!(
                error = chain(&error),
                "cannot list events of a pod that does not start"
            ),
        }
    }
    let before = delay.filter(|_| newest.is_empty());
    let delay = doubled(before, AGAIN_FIRST, AGAIN_MAX);
    MountEvents {
        next_query: now + delay,
        delay,
        newest,
    }
}

/// The newest event of a pod. Events that are too large to be read prove nothing.
async fn failed_mount(
    api: &Api,
    owner: &Owner,
    pod: &str,
) -> Result<Option<FailedMount>, ApiError> {
    let resource = wire::named_resource("", "v1", "Event", "events");
    let target = Target {
        resource: &resource,
        namespace: &owner.namespace,
        name: "",
    };
    let fields = format!("involvedObject.uid={pod},reason={FAILED_MOUNT}");
    let selection = ListParams::default().fields(&fields);
    let Some(bytes) = api.list_selected(target, selection).await? else {
        tracing::warn!("ignoring the events of a pod that does not start: they are too large");
        return Ok(None);
    };
    let events: Events = serde_json::from_slice(&bytes).map_err(ApiError::Unreadable)?;
    let events = events.items.into_iter().filter_map(FailedMount::of);
    Ok(events.max_by_key(|event| event.at))
}

impl FailedMount {
    fn of(event: Event) -> Option<Self> {
        let message = event.message.unwrap_or_default();
        // A driver of a node that has just started is not there yet.
        let missing = (message.contains("not found") || message.contains("non-existent"))
            && !message.contains("registered CSI drivers");
        Some(Self {
            at: event.last_timestamp?.0,
            hopeless: missing.then(|| text::truncated(&message, MESSAGE_BYTES_MAX)),
        })
    }
}

impl MountEvents {
    /// A volume that is slow to come is waited for; one whose source does not exist, after the
    /// kubelet has tried for a while, is not.
    fn failed_mount(&self, pod: &Pod) -> Option<Waiting> {
        let FailedMount { at, hopeless } = self.newest.get(&pod.uid)?;
        let message = hopeless.clone()?;
        (at.duration_since(pod.created_at) >= TRIED).then(|| Waiting {
            reason: FAILED_MOUNT.to_owned(),
            message,
            since: pod.created_at,
            ..Waiting::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> Event {
        Event {
            message: Some(message.to_owned()),
            last_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
        }
    }

    #[test]
    fn c13_no_more_is_kept_of_an_event_than_why_a_volume_never_comes() {
        let hopeless = |message: &str| {
            let event = FailedMount::of(event(message)).expect("the event has a time");
            event.hopeless.map(|why| why.len())
        };
        let long = "x".repeat(1 << 20);
        assert_eq!(hopeless(&long), None);
        let missing = hopeless(&format!("configmap \"x\" not found {long}"));
        assert!(missing.is_some_and(|bytes| bytes <= MESSAGE_BYTES_MAX));
        assert_eq!(
            hopeless("driver not found in the list of registered CSI drivers"),
            None
        );
        assert_eq!(
            FailedMount::of(Event {
                last_timestamp: None,
                ..event("")
            }),
            None
        );
    }
}
