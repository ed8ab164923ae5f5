//! Objects and their history. Decides revisions, indices and what a change is; what may be stored
//! is not its concern.
//!
//! Work grows with what changed: lists are ranges of a sorted map, dependents are found by their
//! owner's UID, and controllers and watches read changes from where they stopped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

/// Which kind: group and plural, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindId(pub(crate) Arc<str>);

/// Where an object stands. Objects of the cluster as a whole have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: KindId,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

/// A change as watches see it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) before: Option<Arc<Value>>,
    /// The object after the change; as it was at last when it is gone.
    pub(crate) object: Arc<Value>,
    pub(crate) gone: bool,
}

type Place = (Arc<str>, Arc<str>);

#[derive(Clone, Debug, Default)]
struct Collection {
    objects: BTreeMap<Place, Arc<Value>>,
    log: VecDeque<Event>,
    /// Events up to this revision are forgotten.
    forgotten: u64,
}

/// All objects.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    revision: u64,
    collections: BTreeMap<KindId, Collection>,
    dependents: BTreeMap<String, BTreeSet<Key>>,
    uids: BTreeMap<String, Key>,
    unseen: Vec<Change>,
    history: usize,
}

/// The history asked for is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The oldest revision that could be served.
    pub(crate) oldest: u64,
}

impl Key {
    pub(crate) fn new(kind: &KindId, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.clone(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn place(&self) -> Place {
        (Arc::clone(&self.namespace), Arc::clone(&self.name))
    }
}

impl KindId {
    pub(crate) fn new(group: &str, plural: &str) -> Self {
        Self(format!("{group}/{plural}").into())
    }

    /// It is this built-in kind.
    pub(crate) fn is(&self, text: &str) -> bool {
        &*self.0 == text
    }
}

impl Store {
    /// Remembers so many events of each kind.
    pub(crate) fn new(history: usize) -> Self {
        Self {
            revision: 1,
            collections: BTreeMap::new(),
            dependents: BTreeMap::new(),
            uids: BTreeMap::new(),
            unseen: Vec::new(),
            history: history.max(1),
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.collections.get(&key.kind)?.objects.get(&key.place())
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Key> {
        self.uids.get(uid)
    }

    /// Objects that name this UID as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Objects of a kind, in one namespace or all, in order, from just after a place.
    pub(crate) fn list<'a>(
        &'a self,
        kind: &KindId,
        namespace: Option<&'a str>,
        after: Option<Place>,
    ) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let start = match (after, namespace) {
            (Some(place), _) => Excluded(place),
            (None, Some(namespace)) => Included((namespace.into(), "".into())),
            (None, None) => Unbounded,
        };
        let collection = self.collections.get(kind);
        let objects = collection.map(|collection| collection.objects.range((start, Unbounded)));
        objects
            .into_iter()
            .flatten()
            .take_while(move |((of, _), _)| namespace.is_none_or(|namespace| **of == *namespace))
            .map(|(_, object)| object)
    }

    /// Kinds that have objects.
    pub(crate) fn kinds(&self) -> Vec<KindId> {
        self.collections.keys().cloned().collect()
    }

    /// Stores an object under a new revision.
    pub(crate) fn put(&mut self, key: &Key, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let object = Arc::new(object);
        let collection = self.collections.entry(key.kind.clone()).or_default();
        let before = collection.objects.insert(key.place(), Arc::clone(&object));
        self.index(key, before.as_deref(), Some(&object));
        self.note(key, before, Arc::clone(&object), false);
        object
    }

    /// Removes an object; the answer is how it was at last.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self
            .collections
            .get_mut(&key.kind)?
            .objects
            .remove(&key.place())?;
        self.revision += 1;
        let mut last = (*before).clone();
        last["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let last = Arc::new(last);
        self.index(key, Some(&before), None);
        self.note(key, Some(before), Arc::clone(&last), true);
        Some(last)
    }

    /// Forgets a kind as a whole: its definition is gone.
    pub(crate) fn forget_kind(&mut self, kind: &KindId) {
        let revision = self.revision;
        if let Some(collection) = self.collections.get_mut(kind) {
            collection.log.clear();
            collection.forgotten = revision;
        }
    }

    /// What changed since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.unseen)
    }

    /// Something changed since the last call of [`Self::changes`].
    pub(crate) fn has_changes(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Events of a kind after a revision.
    pub(crate) fn events(
        &self,
        kind: &KindId,
        since: u64,
    ) -> Result<impl Iterator<Item = &Event>, TooOld> {
        let collection = self.collections.get(kind);
        if let Some(oldest) = collection
            .map(|collection| collection.forgotten)
            .filter(|old| since < *old)
        {
            return Err(TooOld { oldest });
        }
        let events = collection.map(|collection| {
            let start = collection
                .log
                .partition_point(|event| event.revision <= since);
            collection.log.range(start..)
        });
        Ok(events.into_iter().flatten())
    }

    /// Forgets history up to a revision, as compaction does.
    pub(crate) fn forget_before(&mut self, revision: u64) {
        for collection in self.collections.values_mut() {
            while collection
                .log
                .front()
                .is_some_and(|event| event.revision <= revision)
            {
                collection.log.pop_front();
            }
            collection.forgotten = collection.forgotten.max(revision);
        }
    }

    fn note(&mut self, key: &Key, before: Option<Arc<Value>>, object: Arc<Value>, gone: bool) {
        self.unseen.push(Change {
            key: key.clone(),
            before: before.clone(),
            after: (!gone).then(|| Arc::clone(&object)),
        });
        let collection = self.collections.entry(key.kind.clone()).or_default();
        collection.log.push_back(Event {
            revision: self.revision,
            before,
            object,
            gone,
        });
        if collection.log.len() > self.history
            && let Some(event) = collection.log.pop_front()
        {
            collection.forgotten = event.revision;
        }
    }

    fn index(&mut self, key: &Key, before: Option<&Value>, after: Option<&Value>) {
        let (old, new) = (owner_uids(before), owner_uids(after));
        for uid in old.difference(&new) {
            if let Some(keys) = self.dependents.get_mut(*uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(*uid);
                }
            }
        }
        for uid in new.difference(&old) {
            self.dependents
                .entry((*uid).to_owned())
                .or_default()
                .insert(key.clone());
        }
        match (before, after) {
            (None, Some(object)) => {
                self.uids.insert(uid(object).to_owned(), key.clone());
            }
            (Some(object), None) => {
                self.uids.remove(uid(object));
            }
            _ => {}
        }
    }
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// The UIDs of an object's owners.
fn owner_uids(object: Option<&Value>) -> BTreeSet<&str> {
    let owners = object.and_then(|object| object["metadata"]["ownerReferences"].as_array());
    let owners = owners.into_iter().flatten();
    owners.filter_map(|owner| owner["uid"].as_str()).collect()
}

/// `metadata.resourceVersion`, as a number.
pub(crate) fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}
