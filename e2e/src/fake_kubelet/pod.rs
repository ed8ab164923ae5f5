//! A pod as a kubelet without containers needs it: who it is, how long it shall run, and what to say
//! of its containers. Decides the words of its status; must not know when they are said.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// On a pod: it ends so many milliseconds after it started to run. Without it, it runs on.
pub const ENDS_AFTER_MS: &str = "fake-kubelet/ends-after-ms";
/// On a pod that ends: with this code; 0 without it.
pub const EXIT_CODE: &str = "fake-kubelet/exit-code";

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) object: Object,
}

/// All that the API server is asked for: the rest of a pod is hundreds of lines.
#[derive(Debug, Deserialize)]
pub(super) struct Object {
    #[serde(default)]
    pub(super) metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    deletion_timestamp: Option<String>,
    labels: Labels,
    annotations: Annotations,
    owner_references: Vec<Owner>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "training.kubeflow.org/job-role")]
    role: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "fake-kubelet/ends-after-ms")]
    ends_after_ms: Option<String>,
    #[serde(rename = "fake-kubelet/exit-code")]
    exit_code: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    uid: String,
}

impl Metadata {
    pub(super) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// What its template is known by: pods of one owner and one role are alike.
    pub(super) fn template(&self) -> String {
        match self.owner_references.first() {
            Some(owner) => format!("{}/{}", owner.uid, self.labels.role),
            None => self.uid.clone(),
        }
    }

    /// After how long, and with which code, it ends by itself.
    pub(super) fn end(&self) -> Option<(Duration, i32)> {
        let after = self.annotations.ends_after_ms.as_deref()?.parse().ok()?;
        let code = self.annotations.exit_code.as_deref();
        let code = code.map_or(Some(0), |code| code.parse().ok());
        Some((Duration::from_millis(after), code?))
    }
}

/// What pods of one owner and one role have in common.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    /// Of the template; a scheduler would have to find one for the others.
    pub(super) node_name: Option<String>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

/// A pod, for its spec.
#[derive(Debug, Deserialize)]
pub(super) struct WithSpec {
    pub(super) spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    image: String,
    /// `Always` on an init container that stays.
    restart_policy: Option<String>,
}

impl Spec {
    /// All containers run, and the pod is Ready.
    pub(super) fn running(&self, address: &str, now: &str) -> Value {
        let stays = |container: &Container| container.restart_policy.is_some();
        let running = json!({"running": {"startedAt": now}});
        let init = self.init_containers.iter().map(|container| {
            let stays = stays(container);
            container.status(stays, if stays { &running } else { &DONE })
        });
        let containers = self.containers.iter();
        json!({
            "phase": "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": conditions(true),
            "initContainerStatuses": init.collect::<Vec<_>>(),
            "containerStatuses":
                containers.map(|container| container.status(true, &running)).collect::<Vec<_>>(),
        })
    }

    /// All containers ended with this code.
    pub(super) fn ended(&self, code: i32, now: &str) -> Value {
        let (phase, reason) = match code {
            0 => ("Succeeded", "Completed"),
            _ => ("Failed", "Error"),
        };
        let state = json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": now}});
        let containers = self.containers.iter();
        json!({
            "phase": phase,
            "conditions": conditions(false),
            "containerStatuses":
                containers.map(|container| container.status(false, &state)).collect::<Vec<_>>(),
        })
    }
}

impl Container {
    fn status(&self, ready: bool, state: &Value) -> Value {
        json!({
            "name": self.name, "image": self.image, "imageID": "", "restartCount": 0,
            "ready": ready, "state": state,
        })
    }
}

fn conditions(ready: bool) -> Value {
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
    json!([
        condition("PodScheduled", true),
        condition("Initialized", true),
        condition("ContainersReady", ready),
        condition("Ready", ready),
    ])
}

static DONE: std::sync::LazyLock<Value> =
    std::sync::LazyLock::new(|| json!({"terminated": {"exitCode": 0, "reason": "Completed"}}));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_says_when_it_ends() {
        let line = json!({"type": "ADDED", "object": {"metadata": {
            "name": "a", "annotations": {ENDS_AFTER_MS: "20", EXIT_CODE: "3"},
        }}});
        let event: Event = serde_json::from_value(line).expect("a line of a watch");
        let end = event.object.metadata.end();
        assert_eq!(end, Some((Duration::from_millis(20), 3)));
        assert_eq!(Metadata::default().end(), None);
    }

    #[test]
    fn an_init_container_is_over_unless_it_stays() {
        let spec = json!({"containers": [{"name": "a"}], "initContainers": [
            {"name": "once"}, {"name": "stays", "restartPolicy": "Always"},
        ]});
        let spec: Spec = serde_json::from_value(spec).expect("a spec");
        let status = spec.running("192.0.2.1", "2026-01-01T00:00:00Z");
        let init = &status["initContainerStatuses"];
        assert_eq!(init[0]["state"]["terminated"]["exitCode"], 0);
        assert!(init[1]["state"]["running"].is_object());
        assert_eq!(spec.ended(1, "")["phase"], "Failed");
    }
}
