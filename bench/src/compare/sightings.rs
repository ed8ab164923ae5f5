//! What a user who watches sees, and when: conditions of jobs as they become True, and how often an
//! object of a kind changed at all. Decides when something counts as seen; must not know who wrote it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::api::{Hangup, Lines};
use jiff::Timestamp;
use serde_json::Value;

use super::rig::Tenant;

/// A watch of a namespace, until it is dropped.
pub(super) struct Sightings {
    shared: Arc<Shared>,
    hangup: Hangup,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By condition and object.
    seen: BTreeMap<(String, String), Timestamp>,
    modified: usize,
    closed: bool,
    /// It ended before its time, so it may have missed something.
    broken: bool,
}

impl Sightings {
    /// Watches a resource.
    pub(super) fn start(tenant: &Tenant, resource: &str) -> Result<Self> {
        let path = format!("{}?watch=1", tenant.all(resource));
        let lines = tenant.api.watch(&path, "application/json")?;
        let hangup = lines.hangup()?;
        let shared = Arc::new(Shared::default());
        let watched = shared.clone();
        let thread = Some(thread::spawn(move || watched.follow(lines)));
        Ok(Self {
            shared,
            hangup,
            thread,
        })
    }

    /// When a condition of an object was first seen to be True.
    pub(super) fn seen(&self, condition: &str, name: &str) -> Option<Timestamp> {
        let key = (condition.to_owned(), name.to_owned());
        self.shared.state().seen.get(&key).copied()
    }

    /// All that were seen to be True of a condition, by object.
    pub(super) fn all(&self, condition: &str) -> BTreeMap<String, Timestamp> {
        let state = self.shared.state();
        let seen = state.seen.iter().filter(|((kind, _), _)| kind == condition);
        seen.map(|((_, name), at)| (name.clone(), *at)).collect()
    }

    /// How many changes there were.
    pub(super) fn modified(&self) -> Result<usize> {
        let state = self.shared.state();
        ensure!(!state.broken, "a watch ended before its time");
        Ok(state.modified)
    }

    /// Waits until a condition is True of so many objects; says of how many it is then.
    pub(super) fn wait(&self, condition: &str, count: usize, at_most: Duration) -> Result<usize> {
        let end = Instant::now() + at_most;
        let mut state = self.shared.state();
        loop {
            ensure!(!state.broken, "a watch ended before its time");
            let keys = state.seen.keys();
            let reached = keys.filter(|(kind, _)| kind == condition).count();
            let left = end.saturating_duration_since(Instant::now());
            if reached >= count || left.is_zero() {
                return Ok(reached);
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.expect("nobody panics with this lock held").0;
        }
    }
}

impl Drop for Sightings {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.hangup.hang_up();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        state.expect("nobody panics with this lock held")
    }

    fn follow(&self, mut lines: Lines) {
        while let Ok(Some(line)) = lines.next_line() {
            let now = Timestamp::now();
            let event: Value = serde_json::from_slice(line).unwrap_or_default();
            self.state().note(&event, now);
            self.changed.notify_all();
        }
        let mut state = self.state();
        state.broken = !state.closed;
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    fn note(&mut self, event: &Value, now: Timestamp) {
        match event["type"].as_str() {
            Some("MODIFIED") => self.modified += 1,
            Some("ADDED" | "DELETED" | "BOOKMARK") => {}
            _ => self.broken = true,
        }
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array();
        for condition in conditions.into_iter().flatten() {
            if let Some(kind) = condition["type"].as_str()
                && condition["status"] == "True"
            {
                let key = (kind.to_owned(), name.to_owned());
                self.seen.entry(key).or_insert(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_seen_once_and_only_when_it_is_true() {
        let mut state = State::default();
        let event = |kind: &str, status: &str| {
            json!({"type": kind, "object": {
                "metadata": {"name": "a"},
                "status": {"conditions": [{"type": "Running", "status": status}]},
            }})
        };
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        state.note(&event("ADDED", "False"), at(1));
        assert!(state.seen.is_empty());
        state.note(&event("MODIFIED", "True"), at(2));
        state.note(&event("MODIFIED", "True"), at(3));
        let key = ("Running".to_owned(), "a".to_owned());
        assert_eq!(state.seen.get(&key), Some(&at(2)));
        assert_eq!((state.modified, state.broken), (2, false));
        state.note(&json!({"type": "ERROR"}), at(4));
        assert!(state.broken);
    }
}
