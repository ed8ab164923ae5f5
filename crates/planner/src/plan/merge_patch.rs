//! Merge patches that leave nothing of the old value.

use serde_json::{Map, Value};

/// A merge patch that turns `old` into `new`. What the API server had filled in is removed too, and
/// filled in again.
pub(super) fn replacing(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let mut merge: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let value = match old.get(key) {
            Some(old) => replacing(old, value),
            None => value.clone(),
        };
        merge.insert(key.clone(), value);
    }
    Value::Object(merge)
}
