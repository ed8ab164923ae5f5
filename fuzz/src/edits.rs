//! How bytes become a job: edits of a job that is accepted, one in each line, so that most inputs come far.
//!
//! A line is a JSON pointer, a space, and a value as JSON; without a value it removes what is there. What does not
//! exist on the way is made. An input that begins with `{` is the whole job.

use serde_json::{Map, Value};

const LINES_MAX: usize = 40;
const ITEMS_MAX: usize = 40;
/// No input nests deeper than the parser of JSON allows: values are dropped recursively.
const DEPTH_MAX: usize = 100;

/// The job, or nothing if the bytes are none.
pub fn applied(base: &Value, bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    if text.starts_with('{') {
        return serde_json::from_str(text).ok();
    }
    let mut job = base.clone();
    for line in text.lines().take(LINES_MAX) {
        let (pointer, value) = line.split_once(' ').unwrap_or((line, ""));
        if !pointer.starts_with('/') || pointer.split('/').count() > DEPTH_MAX {
            continue;
        }
        if value.is_empty() {
            remove(&mut job, pointer);
        } else if let Ok(value) = serde_json::from_str(value) {
            *place(&mut job, pointer)? = value;
        }
    }
    Some(job)
}

/// The path of a field in a list of fields as a pointer, without its first slash; of a list, the first item.
pub fn pointer_of(path: &str) -> String {
    let path = path.replace("[]", ".0").replace("[*]", ".a");
    path.replace('[', ".").replace(']', "").replace('.', "/")
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Where a value goes; nothing if a list would become too long.
fn place<'v>(value: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    let mut here = value;
    for step in pointer.split('/').skip(1) {
        if here.is_null() && step == "0" {
            *here = Value::Array(Vec::new());
        }
        let index = step.parse::<usize>().ok().filter(|_| here.is_array());
        if index.is_some_and(|index| index >= ITEMS_MAX) {
            return None;
        }
        here = match index {
            Some(index) => {
                let items = here.as_array_mut()?;
                if items.len() <= index {
                    items.resize(index + 1, Value::Null);
                }
                &mut items[index]
            }
            None => {
                if !here.is_object() {
                    *here = Value::Object(Map::new());
                }
                let entries = here.as_object_mut()?;
                entries.entry(unescaped(step)).or_insert(Value::Null)
            }
        };
    }
    Some(here)
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        return;
    };
    match value.pointer_mut(parent) {
        Some(Value::Object(entries)) => drop(entries.remove(&unescaped(last))),
        Some(Value::Array(items)) => {
            if let Some(index) = last.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_set_make_and_remove() {
        let base = json!({"a": {"b": 1, "l": [1, 2]}});
        let edits =
            b"/a/b 2\n/a/c/d \"x\"\n/a/l/0\n/a/l/1 [3]\n/e~1f {}\nno pointer\n/a/b {broken\n";
        let job = applied(&base, edits);
        let wanted = json!({"a": {"b": 2, "c": {"d": "x"}, "l": [2, [3]]}, "e/f": {}});
        assert_eq!(job, Some(wanted));
        assert_eq!(applied(&base, b"{\"x\": 1}"), Some(json!({"x": 1})));
        assert_eq!(applied(&base, b"/a/l/1000000 1"), None);
    }
}
