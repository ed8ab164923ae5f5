//! The launcher's batch Job: how it ended, and the part of it that may still change.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use planner::observed::{Directives, LauncherEnd, LauncherJob};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::metadata::{Sentence, Short};
use super::{Child, Facts, IntoChild, Part, RawObject, assemble};

/// batch/v1 Job.
pub(super) type Job = RawObject<Part<JobSpec>, Part<JobStatus>>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobSpec {
    suspend: Option<bool>,
    ttl_seconds_after_finished: Option<u32>,
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    metadata: TemplateMetadata,
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TemplateSpec {
    node_selector: Value,
    tolerations: Value,
    scheduling_gates: Value,
    affinity: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobStatus {
    start_time: Option<Time>,
    completion_time: Option<Time>,
    failed: Option<u32>,
    uncounted_terminated_pods: Option<Uncounted>,
    conditions: Option<Vec<Condition>>,
}

/// Pods that have ended and are not in the counts yet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Uncounted {
    failed: Option<Vec<IgnoredAny>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Short,
    status: Short,
    reason: Option<Short>,
    message: Option<Sentence>,
}

impl IntoChild for Job {
    fn unreadable(&self) -> bool {
        self.spec.unreadable() || self.status.unreadable()
    }

    fn child(self) -> Child {
        let spec = self.spec.or_default();
        let status = self.status.or_default();
        let mut affinity = spec.template.spec.affinity;
        let facts = Facts::Job(Box::new(LauncherJob {
            uid: self.metadata.uid(),
            suspended: spec.suspend.unwrap_or(false),
            started_at: status.start_time.as_ref().map(|time| time.0),
            deleting: self.metadata.deleting(),
            held: is_held(&status),
            failed_pods: failed_pods(&status),
            end: end(&status),
            ttl_secs: spec.ttl_seconds_after_finished,
            gang: self.metadata.gang(),
            directives: Directives {
                labels: spec.template.metadata.labels.unwrap_or_default(),
                annotations: spec.template.metadata.annotations.unwrap_or_default(),
                node_selector: spec.template.spec.node_selector,
                tolerations: spec.template.spec.tolerations,
                scheduling_gates: spec.template.spec.scheduling_gates,
                node_affinity: affinity
                    .get_mut("nodeAffinity")
                    .map_or(Value::Null, Value::take),
            },
        }));
        assemble(&self.metadata, facts)
    }
}

fn is_held(status: &JobStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| {
        condition.kind.as_str() == "Suspended" && condition.status.as_str() == "True"
    })
}

fn failed_pods(status: &JobStatus) -> u32 {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let uncounted = uncounted.and_then(|pods| pods.failed.as_ref());
    let uncounted = uncounted.map_or(0, Vec::len);
    let uncounted = u32::try_from(uncounted).expect("the API server counts pods in 32 bits");
    status.failed.unwrap_or(0).saturating_add(uncounted)
}

fn end(status: &JobStatus) -> Option<LauncherEnd> {
    let met = status
        .conditions
        .iter()
        .flatten()
        .filter(|condition| condition.status.as_str() == "True");
    // If both conditions are met, the Job is complete.
    let mut met: Vec<_> = met.collect();
    met.sort_by_key(|condition| condition.kind.as_str() != "Complete");
    met.into_iter()
        .find_map(|condition| match condition.kind.as_str() {
            "Complete" => Some(LauncherEnd::Complete {
                at: status.completion_time.as_ref().map(|time| time.0),
            }),
            // FailureTarget becomes Failed once the Job's pods are gone, and they show why it failed.
            "FailureTarget" | "Failed" => Some(LauncherEnd::Failed {
                reason: condition.reason.clone().unwrap_or_default().0,
                message: condition.message.clone().unwrap_or_default().0,
            }),
            _ => None,
        })
}
