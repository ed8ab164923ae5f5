//! RFC 6902. Decides the outcome of each operation; the first that fails ends the patch.

use serde_json::Value;

/// Why a patch came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is no patch at all.
    Malformed(String),
    /// It does not fit the object.
    Unfit,
}

/// Carries the operations out, one after the other.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), Failure> {
    let Some(operations) = patch.as_array() else {
        return Err(Failure::Malformed(
            "error decoding patch: json: cannot unmarshal object into Go value of type \
             []handlers.jsonPatchOp"
                .to_owned(),
        ));
    };
    for operation in operations {
        let text = |field: &str| operation[field].as_str();
        let path = text("path").unwrap_or_default();
        match text("op") {
            Some("add") => add(target, path, operation["value"].clone())?,
            Some("remove") => drop(remove(target, path)?),
            Some("replace") => replace(target, path, operation["value"].clone())?,
            Some("move") => {
                let value = remove(target, text("from").unwrap_or_default())?;
                add(target, path, value)?;
            }
            Some("copy") => {
                let from = text("from").unwrap_or_default();
                let value = find(target, from).cloned().ok_or(Failure::Unfit)?;
                add(target, path, value)?;
            }
            Some("test") => {
                let found = find(target, path).unwrap_or(&Value::Null);
                if *found != operation["value"] {
                    return Err(Failure::Unfit);
                }
            }
            _ => return Err(Failure::Unfit),
        }
    }
    Ok(())
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn find<'a>(target: &'a Value, path: &str) -> Option<&'a Value> {
    target.pointer(path)
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), Failure> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = split(path).ok_or(Failure::Unfit)?;
    match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.insert(last, value);
            Ok(())
        }
        Some(Value::Array(items)) if last == "-" => {
            items.push(value);
            Ok(())
        }
        Some(Value::Array(items)) => match last.parse::<usize>() {
            Ok(index) if index <= items.len() => {
                items.insert(index, value);
                Ok(())
            }
            _ => Err(Failure::Unfit),
        },
        _ => Err(Failure::Unfit),
    }
}

fn remove(target: &mut Value, path: &str) -> Result<Value, Failure> {
    let (parent, last) = split(path).ok_or(Failure::Unfit)?;
    let removed = match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&last),
        Some(Value::Array(items)) => last
            .parse::<usize>()
            .ok()
            .filter(|index| *index < items.len())
            .map(|index| items.remove(index)),
        _ => None,
    };
    removed.ok_or(Failure::Unfit)
}

/// A field that is missing is added; the API server is that lenient.
fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), Failure> {
    if let Some(place) = target.pointer_mut(path) {
        *place = value;
        return Ok(());
    }
    let (parent, _) = split(path).ok_or(Failure::Unfit)?;
    match target.pointer(parent) {
        Some(Value::Object(_)) => add(target, path, value),
        _ => Err(Failure::Unfit),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_follow_one_another() {
        let mut target = json!({"a": {"b": [1, 2]}, "x/y": 1});
        let patch = json!([
            {"op": "test", "path": "/a/b/1", "value": 2},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "remove", "path": "/a/b/0"},
            {"op": "replace", "path": "/x~1y", "value": 7},
            {"op": "copy", "from": "/a/b", "path": "/c"},
            {"op": "move", "from": "/c", "path": "/d"},
        ]);
        assert_eq!(apply(&mut target, &patch), Ok(()));
        assert_eq!(target, json!({"a": {"b": [2, 3]}, "x/y": 7, "d": [2, 3]}));
        for wrong in [
            json!([{"op": "remove", "path": "/nothing"}]),
            json!([{"op": "replace", "path": "/nothing/at/all", "value": 1}]),
            json!([{"op": "add", "path": "/a/b/9", "value": 1}]),
            json!([{"op": "test", "path": "/a", "value": 1}]),
            json!([{"op": "jump", "path": "/a"}]),
        ] {
            assert!(apply(&mut target, &wrong).is_err(), "{wrong}");
        }
    }
}
