//! RFC 6902, with the two liberties that the API server's own library takes. The first operation
//! that fails ends the patch.

use json_patch::{AddOperation, PatchOperation, ReplaceOperation, TestOperation, patch_unsafe};
use serde_json::Value;

/// Why a patch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is not a list of operations.
    Malformed(String),
    /// An operation does not fit the object.
    Unfit,
}

/// Applies the operations in order. After a failure the target is half changed and worthless.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), Failure> {
    if !patch.is_array() {
        return Err(Failure::Malformed(
            "error decoding patch: json: cannot unmarshal object into Go value of type \
             []handlers.jsonPatchOp"
                .to_owned(),
        ));
    }
    let operations: Vec<PatchOperation> =
        serde_json::from_value(patch.clone()).map_err(|_| Failure::Unfit)?;
    for operation in operations {
        let operation = match operation {
            // A missing field is added.
            PatchOperation::Replace(ReplaceOperation { path, value })
                if target.pointer(path.as_str()).is_none() =>
            {
                let parent = path
                    .parent()
                    .and_then(|parent| target.pointer(parent.as_str()));
                if !parent.is_some_and(Value::is_object) {
                    return Err(Failure::Unfit);
                }
                PatchOperation::Add(AddOperation { path, value })
            }
            // A missing field equals null.
            PatchOperation::Test(TestOperation { path, value })
                if value.is_null() && target.pointer(path.as_str()).is_none() =>
            {
                continue;
            }
            other => other,
        };
        patch_unsafe(target, &[operation]).map_err(|_| Failure::Unfit)?;
    }
    Ok(())
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
