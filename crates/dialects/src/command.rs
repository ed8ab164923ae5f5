//! What a user at a terminal may change about a job before it runs: the launcher's command, and
//! whether a failed launcher is retried. Decides how words become fields; each dialect's row decides
//! which field.

use serde_json::{Value, json};

/// Sets the command of the first container of the pod template at `template`, a JSON pointer. False
/// if that template has no container.
pub(crate) fn set_in_template(job: &mut Value, template: &str, words: &[String]) -> bool {
    let pointer = format!("{template}/spec/containers/0");
    let container = job.pointer_mut(&pointer).and_then(Value::as_object_mut);
    let Some(container) = container else {
        return false;
    };
    container.insert("command".to_owned(), literal(words));
    container.remove("args");
    true
}

/// Sets a list of words beside others in the object at `parent`. False if there is no such object.
pub(crate) fn set_list(job: &mut Value, parent: &str, field: &str, words: &[String]) -> bool {
    set(job, parent, field, literal(words))
}

/// The same for a field that a shell reads.
pub(crate) fn set_shell_line(job: &mut Value, parent: &str, field: &str, words: &[String]) -> bool {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    let line: Vec<String> = words.iter().map(quoted).collect();
    set(job, parent, field, line.join(" ").into())
}

/// Sets a field that the job does not set itself. True if it did not.
pub(crate) fn set_if_absent(job: &mut Value, parent: &str, field: &str, value: Value) -> bool {
    let is_absent = job
        .pointer(parent)
        .is_some_and(|parent| parent.get(field).is_none_or(Value::is_null));
    is_absent && set(job, parent, field, value)
}

fn set(job: &mut Value, parent: &str, field: &str, value: Value) -> bool {
    match job.pointer_mut(parent).and_then(Value::as_object_mut) {
        Some(parent) => {
            parent.insert(field.to_owned(), value);
            true
        }
        None => false,
    }
}

/// The kubelet replaces `$(NAME)` in a container's command, and `$$` by one `$`. These words come
/// from a shell that has already replaced what it should.
fn literal(words: &[String]) -> Value {
    let words: Vec<String> = words.iter().map(|word| word.replace('$', "$$")).collect();
    json!(words)
}
