//! The arithmetic of condition lists that Kubeflow's job controllers share and their clients
//! rely on: what changes an entry, where it moves, which timestamps it keeps. Leaves entries that it
//! does not change exactly as they were stored. When a condition holds is for the dialects.

use jiff::Timestamp;
use planner::Verdict;
use serde_json::{Value, json};

use crate::time;

pub(crate) const CREATED: &str = "Created";
pub(crate) const RUNNING: &str = "Running";
pub(crate) const SUSPENDED: &str = "Suspended";
pub(crate) const SUCCEEDED: &str = "Succeeded";
pub(crate) const FAILED: &str = "Failed";

/// The conditions of a stored status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conditions(Vec<Value>);

/// A condition to set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition<'a> {
    /// Its type.
    pub(crate) name: &'a str,
    /// `True` or `False`.
    pub(crate) holds: bool,
    /// A reason in CamelCase.
    pub(crate) reason: &'a str,
    /// A sentence.
    pub(crate) message: &'a str,
}

impl Conditions {
    /// Those of a status of any shape.
    pub(crate) fn of(status: &Value) -> Self {
        let items = status.get("conditions").and_then(Value::as_array);
        Self(
            items
                .into_iter()
                .flatten()
                .filter(|item| item.is_object())
                .cloned()
                .collect(),
        )
    }

    /// As they go into a status.
    pub(crate) fn into_value(self) -> Value {
        Value::Array(self.0)
    }

    /// There is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry of this type.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|item| text(item, "type") == name)
    }

    /// The entry of this type exists and is `True`.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|item| text(item, "status") == "True")
    }

    /// Sets a condition. True if that changed anything. An entry with the same status
    /// and reason stays as it is, message and times included; any other is replaced at the end
    /// of the list, and keeps its transition time if its status stays.
    pub(crate) fn set(&mut self, new: Condition<'_>, now: &str) -> bool {
        self.set_since(new, now, now)
    }

    /// The same, with another transition time for a status that is new.
    pub(crate) fn set_since(&mut self, new: Condition<'_>, now: &str, since: &str) -> bool {
        let status = if new.holds { "True" } else { "False" };
        let mut since = since.to_owned();
        if let Some(old) = self.get(new.name)
            && text(old, "status") == status
        {
            if text(old, "reason") == new.reason {
                return false;
            }
            let stored = text(old, "lastTransitionTime");
            if !stored.is_empty() {
                stored.clone_into(&mut since);
            }
        }
        self.remove(new.name);
        self.0.push(entry(new, now, &since));
        true
    }

    /// Sets a condition and puts it before all others.
    pub(crate) fn put_first(&mut self, new: Condition<'_>, now: &str) {
        self.remove(new.name);
        self.0.insert(0, entry(new, now, now));
    }

    /// Takes an entry out of the list.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|item| text(item, "type") != name);
    }

    /// Removes the times of updates, for an API that has none.
    pub(crate) fn remove_update_times(&mut self) {
        for item in self.0.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("lastUpdateTime");
        }
    }

    /// How the job ended, by the first of these conditions that holds.
    pub(crate) fn verdict(&self, in_order: [&str; 2]) -> Option<Verdict> {
        let name = in_order.into_iter().find(|name| self.holds(name))?;
        Some(match self.get(name) {
            Some(failed) if name == FAILED => Verdict::Failed {
                reason: text(failed, "reason").to_owned(),
                message: text(failed, "message").to_owned(),
            },
            _ => Verdict::Succeeded,
        })
    }

    /// The newest transition time of what holds, other than this one.
    pub(crate) fn newest_true(&self, other_than: &str) -> Option<Timestamp> {
        let others = self
            .0
            .iter()
            .filter(|item| text(item, "status") == "True" && text(item, "type") != other_than);
        let times = others.filter_map(|item| time::read(text(item, "lastTransitionTime")));
        times.max()
    }

    /// Makes an entry `False` where it stands; reason, message and times stay.
    pub(crate) fn withdraw(&mut self, name: &str) {
        for item in self.0.iter_mut().filter(|item| text(item, "type") == name) {
            item["status"] = "False".into();
        }
    }
}

fn entry(new: Condition<'_>, now: &str, since: &str) -> Value {
    json!({
        "type": new.name,
        "status": if new.holds { "True" } else { "False" },
        "reason": new.reason,
        "message": new.message,
        "lastUpdateTime": now,
        "lastTransitionTime": since,
    })
}

/// A text of an entry, empty if it has none.
pub(crate) fn text<'v>(item: &'v Value, key: &str) -> &'v str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}
