//! Events of a job. Decides their form: core/v1 as the Kubeflow operator writes them, because people and
//! tools match them exactly.

use dialects::Event;
use jiff::Timestamp;
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::api::{Api, Target};
use crate::error::chain;
use crate::wire::{UserJob, named_resource};

const COMPONENT: &str = "mpi-job-controller";

/// Creates the events one after the other, so that they are in order. A failure is only logged,
/// because the status has the same information.
pub(crate) async fn record(
    api: &Api,
    job: &UserJob,
    resource: &ApiResource,
    events: &[Event],
    now: Timestamp,
) {
    let events_resource = named_resource("", "v1", "Event", "events");
    for (index, event) in events.iter().enumerate() {
        let body = body(job, resource, event, now, index);
        let target = Target {
            resource: &events_resource,
            namespace: job.metadata.namespace.as_deref().unwrap_or_default(),
            name: "",
        };
        if let Err(error) = api.create(target, &body).await {
            tracing::warn!(
                reason = event.reason,
                error = chain(&error),
                "event was not created"
            );
        }
    }
}

fn body(
    job: &UserJob,
    resource: &ApiResource,
    event: &Event,
    now: Timestamp,
    index: usize,
) -> Value {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    // Two events of one moment need two names.
    let nanos = now.as_nanosecond() + i128::try_from(index).expect("events are few");
    // Stored event times have whole seconds.
    let at =
        Timestamp::from_second(now.as_second()).expect("it was a time before the fraction went");
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name}.{nanos:x}"), "namespace": namespace},
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": name,
            "namespace": namespace,
            "uid": job.metadata.uid,
            "resourceVersion": job.metadata.resource_version,
        },
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason,
        "message": event.message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "eventTime": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_looks_as_consumers_expect_it() {
        let job: UserJob = serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "ring", "namespace": "team-a", "uid": "u1", "resourceVersion": "7"},
        }))
        .unwrap();
        let resource = named_resource("kubeflow.org", "v2beta1", "MPIJob", "mpijobs");
        let event = Event {
            warning: false,
            reason: "R".to_owned(),
            message: "M".to_owned(),
        };
        let now = Timestamp::from_nanosecond(0x18a_0000_0000_0001).unwrap();
        let body = body(&job, &resource, &event, now, 1);
        assert_eq!(body["metadata"]["name"], "ring.18a000000000002");
        assert_eq!(body["involvedObject"]["resourceVersion"], "7");
        assert_eq!(body["firstTimestamp"], body["lastTimestamp"]);
        assert_eq!(body["eventTime"], Value::Null);
        assert_eq!(body["type"], "Normal");
    }
}
