//! Conditions of pods, jobs and nodes. Decides only when a transition happened.

use serde_json::{Value, json};

/// Sets a condition; its transition time changes with its status only.
pub(crate) fn set(
    status: &mut Value,
    kind: &str,
    value: &str,
    why: Option<(&str, &str)>,
    now: &str,
) {
    if status.is_null() {
        *status = json!({});
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let list = status["conditions"]
        .as_array_mut()
        .expect("it was made a list above");
    let before = list.iter().position(|one| one["type"] == kind);
    let since = before
        .map(|index| &list[index])
        .filter(|one| one["status"] == value)
        .map_or_else(|| json!(now), |one| one["lastTransitionTime"].clone());
    let mut condition = json!({
        "type": kind,
        "status": value,
        "lastProbeTime": null,
        "lastTransitionTime": since,
    });
    if let Some((reason, message)) = why {
        condition["reason"] = reason.into();
        if !message.is_empty() {
            condition["message"] = message.into();
        }
    }
    match before {
        Some(index) => list[index] = condition,
        None => list.push(condition),
    }
}

/// A condition holds.
pub(crate) fn is_true(status: &Value, kind: &str) -> bool {
    let list = status["conditions"].as_array();
    list.into_iter()
        .flatten()
        .any(|one| one["type"] == kind && one["status"] == "True")
}
