//! RFC 6902. Decides the outcome of each operation; the first that fails ends the patch.

use serde_json::Value;

/// Why a patch came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is no patch at all.
    Malformed(String),
    /// It does not fit the object.
    Unfit(String),
}

/// Carries the operations out, one after the other.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), Failure> {
    let Some(operations) = patch.as_array() else {
        return Err(Failure::Malformed(
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch".to_owned(),
        ));
    };
    for operation in operations {
        let text = |field: &str| operation[field].as_str();
        let path = text("path").unwrap_or_default();
        match text("op") {
            Some("add") => add(target, path, operation["value"].clone(), "add")?,
            Some("remove") => drop(remove(target, path, "remove")?),
            Some("replace") => replace(target, path, operation["value"].clone())?,
            Some("move") => {
                let value = remove(target, text("from").unwrap_or_default(), "move")?;
                add(target, path, value, "move")?;
            }
            Some("copy") => {
                let from = text("from").unwrap_or_default();
                let value = find(target, from)
                    .cloned()
                    .ok_or_else(|| missing("copy", from))?;
                add(target, path, value, "copy")?;
            }
            Some("test") => {
                let found = find(target, path).unwrap_or(&Value::Null);
                if *found != operation["value"] {
                    return Err(Failure::Unfit(format!(
                        "testing value {path} failed: test failed"
                    )));
                }
            }
            other => {
                return Err(Failure::Unfit(format!(
                    "Unexpected kind: {}",
                    other.unwrap_or("unknown")
                )));
            }
        }
    }
    Ok(())
}

fn missing(operation: &str, path: &str) -> Failure {
    Failure::Unfit(match operation {
        "add" => {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        "replace" => {
            format!("replace operation does not apply: doc is missing key: {path}: missing value")
        }
        "remove" => format!(
            "remove operation does not apply: doc is missing path: \"{path}\": missing value"
        ),
        other => {
            format!("{other} operation does not apply: doc is missing path: {path}: missing value")
        }
    })
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn find<'a>(target: &'a Value, path: &str) -> Option<&'a Value> {
    target.pointer(path)
}

fn add(target: &mut Value, path: &str, value: Value, operation: &str) -> Result<(), Failure> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = split(path).ok_or_else(|| missing(operation, path))?;
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
            _ => Err(Failure::Unfit(format!(
                "add operation does not apply: doc is missing path: \"{path}\": Unable to access \
                 invalid index: {last}: invalid index referenced"
            ))),
        },
        _ => Err(missing(operation, path)),
    }
}

fn remove(target: &mut Value, path: &str, operation: &str) -> Result<Value, Failure> {
    let (parent, last) = split(path).ok_or_else(|| missing(operation, path))?;
    let removed = match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&last),
        Some(Value::Array(items)) => last
            .parse::<usize>()
            .ok()
            .filter(|index| *index < items.len())
            .map(|index| items.remove(index)),
        _ => None,
    };
    removed.ok_or_else(|| missing(operation, path))
}

fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), Failure> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    match target.pointer_mut(path) {
        Some(place) => {
            *place = value;
            Ok(())
        }
        None => Err(missing("replace", path)),
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
            json!([{"op": "replace", "path": "/nothing", "value": 1}]),
            json!([{"op": "add", "path": "/a/b/9", "value": 1}]),
            json!([{"op": "test", "path": "/a", "value": 1}]),
            json!([{"op": "jump", "path": "/a"}]),
        ] {
            assert!(apply(&mut target, &wrong).is_err(), "{wrong}");
        }
    }
}
