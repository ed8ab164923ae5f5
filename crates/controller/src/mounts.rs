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
use crate::context::Context;
use crate::fault::Fault;
use crate::wire;

/// An ordinary pod has begun by then.
const ORDINARY: SignedDuration = SignedDuration::from_secs(8);
/// A pod that is merely slow (a large image) is asked about less and less often.
const AGAIN_FIRST: Duration = Duration::from_secs(5);
const AGAIN_MAX: Duration = Duration::from_secs(60);
const FAILED_MOUNT: &str = "FailedMount";

/// What was heard of a pod that does not begin.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pod: String,
    ask_again: Timestamp,
    delay: Duration,
    waiting: Option<Waiting>,
}

#[derive(Deserialize)]
struct Events {
    items: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Event {
    reason: Option<String>,
    message: Option<String>,
    first_timestamp: Option<Time>,
    last_timestamp: Option<Time>,
}

/// Says of the first pod that should have begun why it does not. Returns when to look again.
pub(crate) async fn explain(
    context: &Context,
    owner: &Owner,
    pods: impl Iterator<Item = &mut Pod>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Fault> {
    let unbegun = |pod: &&mut Pod| {
        pod.phase == PodPhase::Pending
            && !pod.begun
            && !pod.deleting
            && !pod.node.is_empty()
            && pod.waiting.is_none()
    };
    let Some(pod) = pods.filter(unbegun).min_by_key(|pod| pod.created_at) else {
        return Ok(None);
    };
    let due = pod.created_at.saturating_add(ORDINARY).unwrap_or(now);
    if due > now {
        return Ok(Some(due));
    }
    let known = context
        .memory
        .on(&owner.uid, |memory| memory.heard_of_mounts.clone());
    let known = known.filter(|heard| heard.pod == pod.uid);
    let heard = match known {
        Some(heard) if heard.ask_again > now => heard,
        known => {
            let delay = known.map_or(AGAIN_FIRST, |heard| (heard.delay * 2).min(AGAIN_MAX));
            let waiting = failed_mount(context, owner, pod).await?;
            let heard = Heard {
                pod: pod.uid.clone(),
                ask_again: now
                    + if waiting.is_some() {
                        AGAIN_FIRST
                    } else {
                        delay
                    },
                delay,
                waiting,
            };
            let kept = heard.clone();
            context
                .memory
                .on(&owner.uid, |memory| memory.heard_of_mounts = Some(kept));
            heard
        }
    };
    pod.waiting.clone_from(&heard.waiting);
    Ok(Some(heard.ask_again))
}

/// Only what the kubelet said last counts: a volume may have been mounted since.
async fn failed_mount(
    context: &Context,
    owner: &Owner,
    pod: &Pod,
) -> Result<Option<Waiting>, Fault> {
    let resource = wire::named_resource("", "v1", "Event", "events");
    let target = Target {
        resource: &resource,
        namespace: &owner.namespace,
        name: "",
    };
    let about = format!("involvedObject.uid={}", pod.uid);
    let text = context.api.list_selected(target, &about).await?;
    let events: Events = serde_json::from_str(&text).map_err(Fault::Unreadable)?;
    let last = |event: &&Event| event.last_timestamp.as_ref().map(|time| time.0);
    let newest = events.items.iter().max_by_key(last);
    let failed = newest.filter(|event| event.reason.as_deref() == Some(FAILED_MOUNT));
    Ok(failed.map(|event| Waiting {
        reason: FAILED_MOUNT.to_owned(),
        message: event.message.clone().unwrap_or_default(),
        since: event
            .first_timestamp
            .as_ref()
            .map_or(pod.created_at, |time| time.0),
    }))
}
