//! One object in two versions. Decides how a kind's versions relate: custom resources differ in
//! name only, and events of the two groups in the names of fields.

use serde_json::{Map, Value, json};

use crate::resource::Resource;
use crate::schema::{defaulting, pruning};

/// Fields of an event: in `events.k8s.io`, and as stored.
const EVENT_FIELDS: [(&str, &str); 8] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("", ""),
];

fn is_new_event(resource: &Resource) -> bool {
    resource.is("Event") && resource.group == "events.k8s.io"
}

/// As it is stored.
pub(crate) fn to_stored(resource: &Resource, mut object: Value) -> Value {
    if is_new_event(resource) {
        rename(&mut object, |(new, old)| (new, old));
        object["apiVersion"] = "v1".into();
    }
    if let Some(custom) = &resource.custom {
        object["apiVersion"] = format!("{}/{}", resource.group, custom.storage).into();
    }
    object
}

/// It is served just as it is stored.
pub(crate) fn is_plain(resource: &Resource) -> bool {
    !is_new_event(resource)
        && resource
            .custom
            .as_ref()
            .is_none_or(|custom| custom.storage == resource.version)
}

/// As a version has it.
pub(crate) fn from_stored(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    if is_plain(resource) {
        return object;
    }
    if is_new_event(resource) {
        rename(&mut object, |(new, old)| (old, new));
        if let Some(fields) = object.as_object_mut() {
            for field in ["reportingController", "reportingInstance"] {
                if fields.get(field).is_some_and(|text| text == "") {
                    fields.remove(field);
                }
            }
        }
        object["deprecatedSource"] = match object["deprecatedSource"].take() {
            Value::Null => json!({}),
            source => source,
        };
    } else {
        let metadata = object["metadata"].take();
        pruning::prune(&mut object, &open_top(resource), &mut Vec::new());
        defaulting::fill(&mut object, &resource.schema);
        object["metadata"] = metadata;
    }
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_str().into();
    object
}

/// The schema, with the fields that all objects have.
fn open_top(resource: &Resource) -> crate::schema::Schema {
    let own = &resource.schema;
    crate::schema::Schema {
        kind: own.kind,
        fields: own.fields.clone(),
        values: own.values.clone(),
        open: own.open,
        embedded: true,
        ..crate::schema::Schema::default()
    }
}

fn rename(
    object: &mut Value,
    way: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let mut renamed = Map::new();
    for pair in EVENT_FIELDS {
        let (from, to) = way(pair);
        if let Some(value) = fields.remove(from) {
            renamed.insert(to.to_owned(), value);
        }
    }
    fields.extend(renamed);
}
