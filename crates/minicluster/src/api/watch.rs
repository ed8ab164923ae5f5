//! Watches: cursors into the history of a kind. Decides which changes a watch sees and as what:
//! an object that begins to match is added, one that ceases to is deleted.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::select::Selector;
use super::{Call, Outcome, present};
use crate::server::Server;
use crate::status::Refusal;
use crate::store::{Event, TooOld};

/// Between two bookmarks of a quiet watch.
const BOOKMARK_SECS: i64 = 60;

/// A watch that was begun. Ask [`Cluster::follow`] for what it has to say.
#[derive(Clone, Debug)]
pub struct Watch {
    call: Call,
    selector: Selector,
    /// Everything up to this revision was told.
    seen: u64,
    /// Objects that were there when the watch began.
    first: VecDeque<Arc<Value>>,
    /// Tell when these have been told.
    mark_end_of_first: bool,
    bookmarks: bool,
    bookmark_at: Timestamp,
    ends_at: Option<Timestamp>,
    over: bool,
}

/// What a watch says next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Lines of the answer.
    Lines(Vec<u8>),
    /// Nothing for now.
    Quiet,
    /// The watch is over.
    Over,
}

impl Watch {
    /// When it ends by itself.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.ends_at
    }
}

impl Server {
    pub(crate) fn watch(&mut self, call: &Call) -> Result<Outcome, Refusal> {
        let selector = self.selector(call)?;
        let current = self.store.revision();
        let initial = call.params.flag("sendInitialEvents");
        if initial && call.params.text("resourceVersionMatch") != "NotOlderThan" {
            let cause = crate::status::Cause::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
            return Err(Refusal::invalid(
                "meta.k8s.io",
                "ListOptions",
                "",
                vec![cause],
            ));
        }
        let since = match call.params.text("resourceVersion") {
            "" | "0" => None,
            text => Some(text.parse::<u64>().map_err(|_| {
                Refusal::internal(format!(
                    "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing \
                     {text:?}: invalid syntax"
                ))
            })?),
        };
        if let Some(since) = since.filter(|since| *since > current + 1_000_000) {
            return Err(Refusal::too_large_version(since, current));
        }
        let from_start = initial || since.is_none();
        let explicit_no = call.params.has("sendInitialEvents") && !initial;
        let namespace = (!call.namespace.is_empty()).then_some(call.namespace.as_str());
        let mut first = VecDeque::new();
        if from_start && !explicit_no {
            let objects = self.store.list(&call.resource.id, namespace, None);
            first.extend(objects.filter(|object| selector.matches(object)).cloned());
        }
        let secs = call
            .params
            .text("timeoutSeconds")
            .parse::<i64>()
            .ok()
            .filter(|secs| *secs > 0);
        let ends_at =
            secs.and_then(|secs| call.now.checked_add(SignedDuration::from_secs(secs)).ok());
        if let Some(at) = ends_at {
            self.alarms.insert(at);
        }
        Ok(Outcome::Watch(Box::new(Watch {
            call: call.clone(),
            selector,
            seen: if from_start {
                current
            } else {
                since.unwrap_or(current)
            },
            first,
            mark_end_of_first: initial && call.params.flag("allowWatchBookmarks"),
            bookmarks: call.params.flag("allowWatchBookmarks"),
            bookmark_at: later(call.now, BOOKMARK_SECS),
            ends_at,
            over: false,
        })))
    }

    /// Something happened that [`Self::follow`] would look at.
    pub(crate) fn has_news(&self, watch: &Watch) -> bool {
        let is_new = !watch.first.is_empty() || watch.mark_end_of_first;
        let events = self.store.events(&watch.call.resource.id, watch.seen);
        is_new || events.is_err() || events.is_ok_and(|mut events| events.next().is_some())
    }

    /// What a watch has to say now.
    pub(crate) fn follow(&self, now: Timestamp, watch: &mut Watch) -> Next {
        if watch.over {
            return Next::Over;
        }
        let mut lines = Vec::new();
        while let Some(object) = watch.first.pop_front() {
            watch.line("ADDED", &object, &mut lines);
        }
        if std::mem::take(&mut watch.mark_end_of_first) {
            watch.bookmark(watch.seen, true, &mut lines);
        }
        if watch.seen < self.store.revision() {
            match self.store.events(&watch.call.resource.id, watch.seen) {
                Err(TooOld { oldest }) => {
                    let why = format!("too old resource version: {} ({oldest})", watch.seen);
                    push(&mut lines, "ERROR", &Refusal::expired(why).body());
                    watch.over = true;
                }
                Ok(events) => {
                    for event in events {
                        watch.tell(event, &mut lines);
                    }
                    watch.seen = self.store.revision();
                }
            }
        }
        let ending = watch.ends_at.is_some_and(|at| at <= now);
        if !lines.is_empty() {
            watch.bookmark_at = later(now, BOOKMARK_SECS);
        } else if watch.bookmarks && (ending || watch.bookmark_at <= now) && !watch.over {
            watch.bookmark(watch.seen, false, &mut lines);
            watch.bookmark_at = later(now, BOOKMARK_SECS);
        }
        watch.over |= ending;
        match (lines.is_empty(), watch.over) {
            (false, _) => Next::Lines(lines),
            (true, true) => Next::Over,
            (true, false) => Next::Quiet,
        }
    }
}

impl Watch {
    fn tell(&self, event: &Event, lines: &mut Vec<u8>) {
        let namespace = &self.call.namespace;
        if !namespace.is_empty() && event.object["metadata"]["namespace"] != namespace.as_str() {
            return;
        }
        let matched = event
            .before
            .as_ref()
            .is_some_and(|before| self.selector.matches(before));
        let matches = !event.gone && self.selector.matches(&event.object);
        match (matched, matches) {
            (false, true) => self.line("ADDED", &event.object, lines),
            (true, true) => self.line("MODIFIED", &event.object, lines),
            (true, false) => {
                let mut last = if event.gone {
                    (*event.object).clone()
                } else {
                    event.before.as_deref().cloned().unwrap_or_default()
                };
                last["metadata"]["resourceVersion"] = event.revision.to_string().into();
                self.line("DELETED", &Arc::new(last), lines);
            }
            (false, false) => {}
        }
    }

    fn line(&self, kind: &str, object: &Arc<Value>, lines: &mut Vec<u8>) {
        lines.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        lines.append(&mut present::object(
            &self.call.resource,
            object,
            self.call.form,
            &self.call,
        ));
        lines.extend_from_slice(b"}\n");
    }

    fn bookmark(&self, revision: u64, end_of_first: bool, lines: &mut Vec<u8>) {
        let resource = &self.call.resource;
        let mut object = json!({
            "kind": resource.kind,
            "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if end_of_first {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        if self.call.form == super::request::Form::Metadata {
            object["kind"] = "PartialObjectMetadata".into();
            object["apiVersion"] = "meta.k8s.io/v1".into();
        }
        if self.call.form == super::request::Form::Table {
            object = present::table(&self.call, &[Arc::new(object)], revision, None, true);
        }
        push(lines, "BOOKMARK", &object);
    }
}

fn push(lines: &mut Vec<u8>, kind: &str, object: &Value) {
    let line = json!({"type": kind, "object": object});
    lines.extend(serde_json::to_vec(&line).expect("a JSON value can be written"));
    lines.push(b'\n');
}

fn later(now: Timestamp, secs: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(secs))
        .unwrap_or(now)
}
