//! The garbage collector and the end of namespaces. Decides which objects go because their owners
//! or their namespace are gone. Work grows with what changed: each removal is followed to its
//! dependents by UID.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::delete::{FOREGROUND, ORPHAN, Options, Propagation, key_of};
use crate::apply::{Managed, Writer};
use crate::server::Server;
use crate::store::{Change, Key, KindId, Store, uid};
use crate::value::set_or_remove;
use crate::value::{items, text};

/// What the collector still has to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Garbage {
    /// Objects whose owners may be gone.
    dependents: BTreeSet<Key>,
    /// Objects that wait for their dependents.
    owners: BTreeSet<Key>,
    /// Namespaces on their way out.
    namespaces: BTreeSet<String>,
}

impl Garbage {
    /// Takes in a change.
    pub(crate) fn note(&mut self, change: &Change, store: &Store) {
        match &change.after {
            None => {
                if let Some(before) = &change.before {
                    self.dependents
                        .extend(store.dependents(uid(before)).cloned());
                    for owner in items(&before["metadata"]["ownerReferences"]) {
                        self.owners
                            .extend(store.by_uid(text(&owner["uid"])).cloned());
                    }
                    let namespace = change.key.namespace.to_string();
                    if !namespace.is_empty() {
                        self.namespaces.insert(namespace);
                    }
                }
            }
            Some(after) => {
                let owners = &after["metadata"]["ownerReferences"];
                let before = change
                    .before
                    .as_ref()
                    .map(|one| &one["metadata"]["ownerReferences"]);
                if !owners.is_null() && before != Some(owners) {
                    self.dependents.insert(change.key.clone());
                }
                if !after["metadata"]["deletionTimestamp"].is_null() {
                    self.owners.insert(change.key.clone());
                    if change.key.kind.is("/namespaces") {
                        self.namespaces.insert(change.key.name.to_string());
                    }
                }
            }
        }
    }

    /// Deletes what nobody owns any more.
    pub(crate) fn run(&mut self, server: &mut Server, now: Timestamp) {
        let garbage = std::mem::take(self);
        for key in garbage.dependents {
            server.collect_dependent(now, &key);
        }
        for key in garbage.owners {
            server.release_owner(now, &key);
        }
        for name in garbage.namespaces {
            server.end_namespace(now, &name);
        }
    }
}

impl Server {
    /// An object goes when none of its owners is there; owners that are gone are struck out.
    fn collect_dependent(&mut self, now: Timestamp, key: &Key) {
        let Some(object) = self.store.get(key).cloned() else {
            return;
        };
        let owners = items(&object["metadata"]["ownerReferences"]);
        let is_there = |owner: &Value| {
            self.store
                .by_uid(text(&owner["uid"]))
                .is_some_and(|found| found.namespace.is_empty() || found.namespace == key.namespace)
        };
        let (there, gone): (Vec<&Value>, Vec<&Value>) =
            owners.iter().partition(|owner| is_there(owner));
        if gone.is_empty() {
            return;
        }
        if there.is_empty() {
            let options = Options {
                propagation: Some(Propagation::Background),
                uid: Some(uid(&object).to_owned()),
                ..Options::default()
            };
            self.delete_any(now, key, &options);
            return;
        }
        let left: Value = there.into_iter().cloned().collect();
        let mut object = (*object).clone();
        object["metadata"]["ownerReferences"] = left;
        self.store.put(key, object);
    }

    /// An object that waits for its dependents, or wants to leave them behind.
    fn release_owner(&mut self, now: Timestamp, key: &Key) {
        let Some(object) = self.store.get(key).cloned() else {
            return;
        };
        if object["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let held = items(&object["metadata"]["finalizers"]);
        let has = |name: &str| held.iter().any(|one| one == name);
        let dependents: Vec<Key> = self.store.dependents(uid(&object)).cloned().collect();
        if has(ORPHAN) {
            for dependent in dependents {
                self.disown(now, &dependent, uid(&object));
            }
            self.drop_finalizer(key, &object, ORPHAN);
        } else if has(FOREGROUND) {
            let mut blocked = false;
            for dependent in dependents {
                blocked |= self.delete_dependent(now, &dependent, uid(&object));
            }
            if !blocked {
                self.drop_finalizer(key, &object, FOREGROUND);
            }
        }
    }

    /// True while the dependent holds its owner up.
    fn delete_dependent(&mut self, now: Timestamp, key: &Key, owner: &str) -> bool {
        let Some(object) = self.store.get(key).cloned() else {
            return false;
        };
        let mine = items(&object["metadata"]["ownerReferences"])
            .iter()
            .find(|one| one["uid"] == owner);
        let blocks = mine.is_some_and(|one| one["blockOwnerDeletion"] == true);
        if object["metadata"]["deletionTimestamp"].is_null() {
            let options = Options {
                propagation: Some(Propagation::Foreground),
                uid: Some(uid(&object).to_owned()),
                ..Options::default()
            };
            self.delete_any(now, key, &options);
        }
        blocks && self.store.get(key).is_some()
    }

    fn disown(&mut self, now: Timestamp, key: &Key, owner: &str) {
        let Some(before) = self.store.get(key).cloned() else {
            return;
        };
        let owners = items(&before["metadata"]["ownerReferences"]);
        let left: Vec<Value> = owners
            .iter()
            .filter(|one| one["uid"] != owner)
            .cloned()
            .collect();
        let left = if left.is_empty() {
            Value::Null
        } else {
            Value::Array(left)
        };
        let mut object = (*before).clone();
        set_or_remove(&mut object["metadata"], "ownerReferences", &left);
        if let (Some(resource), Some(mut managed)) =
            (self.kinds.of_id(&key.kind), Managed::of(&before))
        {
            let writer = Writer {
                name: "kube-controller-manager",
                version: &resource.api_version(),
                subresource: "",
                now,
                ignores: &[],
            };
            managed.update(&before, &object, &self.typed(resource), writer);
            managed.write(&mut object);
        }
        self.store.put(key, object);
    }

    fn drop_finalizer(&mut self, key: &Key, object: &Arc<Value>, name: &str) {
        let held = items(&object["metadata"]["finalizers"]);
        let left: Vec<Value> = held.iter().filter(|one| *one != name).cloned().collect();
        let left = if left.is_empty() {
            Value::Null
        } else {
            Value::Array(left)
        };
        let mut object = (**object).clone();
        set_or_remove(&mut object["metadata"], "finalizers", &left);
        self.settle(key, object);
    }

    /// Empties a namespace that is on its way out, and lets it go once it is empty.
    fn end_namespace(&mut self, now: Timestamp, name: &str) {
        let key = Key::new(&KindId::new("", "namespaces"), "", name);
        let Some(namespace) = self.store.get(&key).cloned() else {
            return;
        };
        if namespace["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let mut left = false;
        for kind in self.store.kinds() {
            let objects: Vec<Arc<Value>> =
                self.store.list(&kind, Some(name), None).cloned().collect();
            for object in objects {
                let key = key_of(&kind, &object);
                if object["metadata"]["deletionTimestamp"].is_null() {
                    let options = Options {
                        propagation: Some(Propagation::Background),
                        ..Options::default()
                    };
                    self.delete_any(now, &key, &options);
                }
                left |= self.store.get(&key).is_some();
            }
        }
        if !left {
            let mut object = (*namespace).clone();
            set_or_remove(&mut object["spec"], "finalizers", &Value::Null);
            self.settle(&key, object);
        }
    }
}
