//! Patches: JSON merge, JSON and strategic merge. Decides what a patch makes of an object; whether
//! the result may be stored is decided elsewhere.

use serde_json::{Map, Value};

pub(crate) mod json;
pub(crate) mod strategic;

/// RFC 7396.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("it was made an object above");
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
