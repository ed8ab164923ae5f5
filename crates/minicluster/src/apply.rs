//! Who set which field: `managedFields`, and server-side apply on top of it. Decides what an
//! update takes over, what an apply changes, removes and conflicts with.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::schema::Schema;
use crate::schema::format;
use crate::status::{Cause, Refusal};

pub(crate) mod fields;
pub(crate) mod typed;

use fields::{Element, Fields};

/// One who set fields, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    applied: bool,
    name: String,
    version: String,
    subresource: String,
}

/// What one set, and when.
#[derive(Clone, Debug, PartialEq)]
struct Share {
    fields: Fields,
    /// An applier is the same one whatever version it applies in.
    version: String,
    time: String,
}

/// Everybody's fields of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Managed(BTreeMap<Manager, Share>);

/// Who writes now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
    /// Paths that this kind of write never changes.
    pub(crate) ignores: &'a [&'a [&'a str]],
}

/// Metadata that nobody owns.
const UNOWNED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Managers that update are merged beyond this number.
const UPDATERS_MAX: usize = 10;

impl Managed {
    /// As stored in an object; none when it cannot be read.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let entries = object["metadata"]["managedFields"].as_array();
        let mut managed = Self::default();
        for entry in entries.into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            let operation = text("operation");
            if operation != "Apply" && operation != "Update" {
                return None;
            }
            let applied = operation == "Apply";
            let version = text("apiVersion");
            let manager = Manager {
                applied,
                name: text("manager"),
                version: if applied {
                    String::new()
                } else {
                    version.clone()
                },
                subresource: text("subresource"),
            };
            let share = Share {
                fields: Fields::parse(&entry["fieldsV1"])?,
                version,
                time: text("time"),
            };
            managed.0.insert(manager, share);
        }
        Some(managed)
    }

    /// Nobody owns anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the entries into an object.
    pub(crate) fn write(mut self, object: &mut Value) {
        let unowned = Fields::of_paths(&UNOWNED);
        for share in self.0.values_mut() {
            share.fields = share.fields.difference(&unowned);
        }
        self.0.retain(|_, share| !share.fields.is_empty());
        let mut entries: Vec<(&Manager, &Share)> = self.0.iter().collect();
        entries.sort_by(|(a, share_a), (b, share_b)| {
            let rank = |manager: &Manager| u8::from(!manager.applied);
            (
                rank(a),
                &share_a.time,
                &a.name,
                &share_a.version,
                &a.subresource,
            )
                .cmp(&(
                    rank(b),
                    &share_b.time,
                    &b.name,
                    &share_b.version,
                    &b.subresource,
                ))
        });
        let entries: Vec<Value> = entries.into_iter().map(entry).collect();
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return;
        };
        if entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }

    /// After an update from `before` to `after`: who writes owns what changed.
    pub(crate) fn update(
        &mut self,
        before: &Value,
        after: &Value,
        schema: &Schema,
        by: Writer<'_>,
    ) {
        let mut change = typed::compare(before, after, schema);
        for path in by.ignores {
            change.exclude(path);
        }
        let taken = change.modified.union(&change.added);
        for share in self.0.values_mut() {
            share.fields = share.fields.difference(&taken).difference(&change.removed);
        }
        self.0.retain(|_, share| !share.fields.is_empty());
        let unowned = Fields::of_paths(&UNOWNED);
        if taken.difference(&unowned).is_empty() {
            return;
        }
        let share = self.0.entry(by.manager(false)).or_insert_with(|| Share {
            fields: Fields::default(),
            version: by.version.to_owned(),
            time: String::new(),
        });
        share.fields = share.fields.union(&taken);
        share.time = format::seconds(by.now);
        self.cap(by);
    }

    /// Oldest updaters are lumped together when there are too many.
    fn cap(&mut self, by: Writer<'_>) {
        let mut updaters: Vec<(String, Manager)> = self
            .0
            .iter()
            .filter(|(manager, _)| !manager.applied && manager.subresource.is_empty())
            .map(|(manager, share)| (share.time.clone(), manager.clone()))
            .collect();
        if updaters.len() <= UPDATERS_MAX {
            return;
        }
        updaters.sort();
        let ancient = Manager {
            applied: false,
            name: "ancient-changes".to_owned(),
            version: by.version.to_owned(),
            subresource: String::new(),
        };
        let excess = updaters.len() - UPDATERS_MAX + 1;
        let mut lump: Option<Share> = None;
        for (_, manager) in updaters.into_iter().take(excess) {
            let share = self
                .0
                .remove(&manager)
                .expect("the manager was listed above");
            lump = Some(match lump {
                None => share,
                Some(lump) => Share {
                    fields: lump.fields.union(&share.fields),
                    version: by.version.to_owned(),
                    time: share.time,
                },
            });
        }
        if let Some(lump) = lump {
            self.0.insert(ancient, lump);
        }
    }

    /// Applies a configuration to an object. `None` when nothing changes, not even ownership.
    pub(crate) fn apply(
        &mut self,
        live: &Value,
        config: &Value,
        schema: &Schema,
        by: Writer<'_>,
        force: bool,
    ) -> Result<Value, Refusal> {
        let merged = typed::merge(live, config, schema);
        let me = by.manager(true);
        let last = self.0.get(&me).cloned();
        let mut set = typed::fields_of(config, schema);
        for path in by.ignores {
            set = set.without(path);
        }
        let time = last
            .as_ref()
            .map(|share| share.time.clone())
            .unwrap_or_default();
        self.0.insert(
            me.clone(),
            Share {
                fields: set,
                version: by.version.to_owned(),
                time,
            },
        );
        let object = match last.filter(|share| !share.fields.is_empty()) {
            Some(share) => self.prune(merged, &share.fields, schema),
            None => merged,
        };
        self.resolve(live, &object, schema, &me, by, force)?;
        let now = format::seconds(by.now);
        // Only a change of the object counts: to share what is there already has no date.
        if let Some(share) = self.0.get_mut(&me)
            && object != *live
        {
            share.time = now;
        }
        Ok(object)
    }

    /// Removes what the last configuration had and this one has not, unless somebody else owns it.
    fn prune(&self, merged: Value, last: &Fields, schema: &Schema) -> Value {
        let pruned = typed::remove(&merged, last, schema);
        let set = |value: &Value| typed::fields_of(value, schema).with_named(schema);
        let mut managed = Fields::default();
        for share in self.0.values() {
            managed = managed.union(&share.fields);
        }
        let merged_set = set(&merged);
        let keep = set(&pruned).union(&managed.with_named(schema));
        let pruned = typed::remove(&merged, &merged_set.difference(&keep), schema);
        let dangling = merged_set
            .difference(&set(&pruned))
            .intersection(&last.with_named(schema));
        typed::remove(&merged, &dangling, schema)
    }

    /// Takes fields from others, or refuses to.
    fn resolve(
        &mut self,
        live: &Value,
        object: &Value,
        schema: &Schema,
        me: &Manager,
        by: Writer<'_>,
        force: bool,
    ) -> Result<(), Refusal> {
        let mut change = typed::compare(live, object, schema);
        for path in by.ignores {
            change.exclude(path);
        }
        let taken = change.modified.union(&change.added);
        let mut conflicts: Vec<(Manager, Fields)> = Vec::new();
        for (manager, share) in &mut self.0 {
            if manager == me {
                continue;
            }
            let conflict = share.fields.intersection(&taken);
            if !conflict.is_empty() {
                conflicts.push((manager.clone(), conflict));
            }
            share.fields = share.fields.difference(&change.removed);
        }
        if !force && !conflicts.is_empty() {
            return Err(refuse(&conflicts));
        }
        for (manager, conflict) in conflicts {
            if let Some(share) = self.0.get_mut(&manager) {
                share.fields = share.fields.difference(&conflict);
            }
        }
        self.0.retain(|_, share| !share.fields.is_empty());
        Ok(())
    }
}

impl Writer<'_> {
    fn manager(&self, applied: bool) -> Manager {
        Manager {
            applied,
            name: self.name.to_owned(),
            version: if applied {
                String::new()
            } else {
                self.version.to_owned()
            },
            subresource: self.subresource.to_owned(),
        }
    }
}

impl Manager {
    fn shown(&self) -> String {
        let mut text = format!("\"{}\"", self.name);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource \"{}\"", self.subresource);
        }
        if !self.applied {
            text = format!("{text} using {}", self.version);
        }
        text
    }
}

fn entry((manager, share): (&Manager, &Share)) -> Value {
    let mut entry = Map::new();
    let operation = if manager.applied { "Apply" } else { "Update" };
    entry.insert("manager".to_owned(), manager.name.as_str().into());
    entry.insert("operation".to_owned(), operation.into());
    entry.insert("apiVersion".to_owned(), share.version.as_str().into());
    if !share.time.is_empty() {
        entry.insert("time".to_owned(), share.time.as_str().into());
    }
    entry.insert("fieldsType".to_owned(), "FieldsV1".into());
    entry.insert("fieldsV1".to_owned(), share.fields.body());
    if !manager.subresource.is_empty() {
        entry.insert(
            "subresource".to_owned(),
            manager.subresource.as_str().into(),
        );
    }
    Value::Object(entry)
}

fn refuse(conflicts: &[(Manager, Fields)]) -> Refusal {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    let mut count = 0;
    let mut single = String::new();
    for (manager, fields) in conflicts {
        let who = manager.shown();
        lines.push(format!("conflicts with {who}:"));
        for path in fields.paths() {
            let path = path.iter().map(Element::shown).collect::<String>();
            let message = format!("conflict with {who}");
            single = format!("{message}: {path}");
            causes.push(Cause::new("FieldManagerConflict", &path, message));
            lines.push(format!("- {path}"));
            count += 1;
        }
    }
    let message = if count == 1 {
        format!("Apply failed with 1 conflict: {single}")
    } else {
        format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
    };
    Refusal::apply_conflict(message, causes)
}

/// Nothing but times of managers differs.
pub(crate) fn same_but_times(a: &Value, b: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let entries = object["metadata"]["managedFields"].as_array_mut();
        for entry in entries.into_iter().flatten() {
            entry["time"] = json!(null);
        }
        object
    };
    if a["metadata"]["managedFields"] == b["metadata"]["managedFields"] {
        return a == b;
    }
    timeless(a) == timeless(b)
}
