//! JSON merge patches: the smallest one between two values, and what the API server dropped of one.

use serde_json::{Map, Value};

/// A patch that turns `from` into `to`; none when they are equal. A null in `to` counts as
/// absent, because a merge patch cannot set one.
pub(crate) fn patch(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let patch = object(from, to);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (from, to) if from == to => None,
        // A merge patch applies object by object, so leftovers of another shape must not stay.
        (_, Value::Object(to)) => Some(Value::Object(object(&Map::new(), to))),
        (_, to) => Some(to.clone()),
    }
}

/// What `wanted` has and `stored` lacks, by key: fields that the API server dropped.
pub(crate) fn dropped(wanted: &Value, stored: &Value) -> Map<String, Value> {
    let (Value::Object(wanted), Value::Object(stored)) = (wanted, stored) else {
        return Map::new();
    };
    let wanted = wanted.iter().filter(|(_, value)| !value.is_null());
    let missing = wanted.filter_map(|(key, value)| match stored.get(key) {
        None => Some((key.clone(), Value::Null)),
        Some(stored) => {
            let within = dropped(value, stored);
            (!within.is_empty()).then(|| (key.clone(), Value::Object(within)))
        }
    });
    missing.collect()
}

/// Removes from a patch what the API server would drop.
pub(crate) fn remove_dropped(patch: &mut Map<String, Value>, dropped: &Map<String, Value>) {
    patch.retain(|key, value| match (value, dropped.get(key)) {
        (_, None) => true,
        (Value::Object(value), Some(Value::Object(dropped))) => {
            remove_dropped(value, dropped);
            !value.is_empty()
        }
        (_, Some(Value::Object(_))) => true,
        (_, Some(_)) => false,
    });
}

/// Removes from what was dropped what the API server stores now.
pub(crate) fn remove_stored(dropped: &mut Map<String, Value>, stored: &Map<String, Value>) {
    dropped.retain(|key, within| match (stored.get(key), within) {
        (None, _) => true,
        (Some(Value::Object(stored)), Value::Object(within)) => {
            remove_stored(within, stored);
            !within.is_empty()
        }
        (Some(_), _) => false,
    });
}

/// Adds to what was dropped.
pub(crate) fn add_dropped(dropped: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, within) in more {
        match (dropped.get_mut(&key), within) {
            (Some(Value::Object(dropped)), Value::Object(within)) => add_dropped(dropped, within),
            (_, within) => _ = dropped.insert(key, within),
        }
    }
}

fn object(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
    let wanted = |key: &String| to.get(key).is_some_and(|value| !value.is_null());
    let gone = from
        .iter()
        .filter(|(key, value)| !value.is_null() && !wanted(key));
    let gone = gone.map(|(key, _)| (key.clone(), Value::Null));
    let kept = to
        .iter()
        .filter(|(_, value)| !value.is_null())
        .filter_map(|(key, value)| {
            let difference = patch(from.get(key).unwrap_or(&Value::Null), value)?;
            Some((key.clone(), difference))
        });
    gone.chain(kept).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(mut target: Value, patch: &Value) -> Value {
        json_patch::merge(&mut target, patch);
        target
    }

    #[test]
    fn the_patch_leads_from_one_status_to_the_other() {
        let cases = [
            (json!({}), json!({"a": 1})),
            (
                json!({"a": 1, "b": {"c": 2, "d": 3}}),
                json!({"b": {"d": 4}}),
            ),
            (json!({"conditions": [1, 2]}), json!({"conditions": [1, 3]})),
            (json!({"a": "text"}), json!({"a": {"now": "an object"}})),
            (json!({"a": {"b": 1}}), json!({"a": {}})),
            (json!({"a": {"b": 1}}), json!({"a": 7})),
            (json!({"old": null, "a": 1}), json!({"a": 1})),
            (Value::Null, json!({"a": {"b": 1}})),
        ];
        for (from, to) in cases {
            let changed =
                patch(&from, &to).map_or(from.clone(), |patch| apply(from.clone(), &patch));
            let without_nulls = patch(&changed, &to);
            assert_eq!(without_nulls, None, "{from} to {to} ended at {changed}");
        }
    }

    #[test]
    fn vanished_keys_are_removed_and_equal_ones_not_repeated() {
        let from =
            json!({"startTime": "t", "replicaStatuses": {"Worker": {"active": 1, "failed": 2}}});
        let to = json!({"replicaStatuses": {"Worker": {"active": 1}}});
        let expected = json!({"startTime": null, "replicaStatuses": {"Worker": {"failed": null}}});
        assert_eq!(patch(&from, &to), Some(expected));
        assert_eq!(patch(&to, &to), None);
        assert_eq!(patch(&json!({"a": null}), &json!({})), None);
        assert_eq!(patch(&json!({}), &json!({"a": null})), None);
    }
}
