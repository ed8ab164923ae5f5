//! What of a job is not shown to those who get a report. Decides it by the names of variables, flags and keys,
//! because nothing else says which text is secret. Values from Secrets are not in a job, and nobody asks for
//! them here. Must not know where a dialect keeps its fields.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Stands for what is not shown.
pub(crate) const LEFT_OUT: &str = "(left out)";

/// kubectl keeps a whole copy of the object there, as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Words at the end of a part of a name that make it the name of a secret.
const SECRET_ENDINGS: [&str; 7] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "credential",
    "credentials",
];
/// Whole parts of a name that do the same.
const SECRET_PARTS: [&str; 7] = [
    "key",
    "apikey",
    "auth",
    "authorization",
    "pwd",
    "pass",
    "secrets",
];
/// Maps of an object whose keys people choose.
const OPEN_MAPS: [&str; 4] = ["annotations", "labels", "data", "stringData"];

/// Whether the name of a variable, a flag or a key says that its value is secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut after_small = false;
    for char in name.chars() {
        let begins = char.is_uppercase() && after_small;
        if begins || !char.is_alphanumeric() {
            parts.push(std::mem::take(&mut part));
        }
        if char.is_alphanumeric() {
            part.extend(char.to_lowercase());
        }
        after_small = char.is_lowercase();
    }
    parts.push(part);
    parts.iter().any(|part| {
        SECRET_PARTS.contains(&part.as_str())
            || SECRET_ENDINGS.iter().any(|ending| part.ends_with(ending))
    })
}

/// An object as it may be shown.
pub(crate) fn shown(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        let annotations = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
        }
    }
    if object["kind"] == "Secret" {
        for map in ["data", "stringData"] {
            let values = object.get_mut(map).and_then(Value::as_object_mut);
            for value in values.into_iter().flat_map(Map::values_mut) {
                *value = LEFT_OUT.into();
            }
        }
    }
    clear(&mut object);
    object
}

fn clear(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A variable: a name and its value.
            let is_secret = map
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(is_secret_name);
            if let Some(value) = map.get_mut("value").filter(|_| is_secret) {
                *value = LEFT_OUT.into();
            }
            for (key, below) in map.iter_mut() {
                if OPEN_MAPS.contains(&key.as_str()) {
                    clear_open_map(below);
                }
                clear(below);
            }
        }
        Value::Array(items) => {
            let mut follows_flag = false;
            for item in items {
                let word = item.as_str().map(str::to_owned);
                if follows_flag && word.is_some() {
                    *item = LEFT_OUT.into();
                }
                let flag = word.as_deref().and_then(|word| word.strip_prefix('-'));
                follows_flag = flag.is_some_and(|flag| !flag.contains('=') && is_secret_name(flag));
                clear(item);
            }
        }
        Value::String(text) => {
            if let Cow::Owned(clear) = text_shown(text) {
                *text = clear;
            }
        }
        _ => {}
    }
}

fn clear_open_map(map: &mut Value) {
    for (key, value) in map.as_object_mut().into_iter().flatten() {
        // Labels of Kubernetes have the word in their prefix, and say nothing secret.
        let own = key.rsplit('/').next().unwrap_or(key);
        if value.is_string() && is_secret_name(own) {
            *value = LEFT_OUT.into();
        }
    }
}

/// `NAME=VALUE`, and `//user:password@` of an address.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r#"([A-Za-z][A-Za-z0-9_.-]*)=("[^"]*"|'[^']*'|[^\s"';&|]+)|//([^\s/:@]+):([^\s/@]+)@"#;
    Regex::new(pattern).expect("the pattern is constant")
});

/// A text as it may be shown: a command line, a message, or a line of a log.
pub(crate) fn text_shown(text: &str) -> Cow<'_, str> {
    if !text.contains(['=', '@']) {
        return Cow::Borrowed(text);
    }
    ASSIGNED.replace_all(text, |found: &Captures<'_>| {
        let part = |number: usize| found.get(number).map(|part| part.as_str());
        match (part(1), part(3)) {
            (Some(name), _) if is_secret_name(name) => format!("{name}={LEFT_OUT}"),
            (None, Some(user)) => format!("//{user}:{LEFT_OUT}@"),
            _ => found[0].to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_say_what_is_secret() {
        for name in [
            "TOKEN",
            "HF_TOKEN",
            "hfToken",
            "PGPASSWORD",
            "DB_PASSWD",
            "AWS_SECRET_ACCESS_KEY",
            "apiKey",
            "API-KEY",
            "client.secret",
            "BASIC_AUTH",
            "WANDB_API_KEY",
            "--db-password",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "OMP_NUM_THREADS",
            "MONKEY",
            "AUTHOR",
            "KEYBOARD",
            "LR",
            "TOKENIZERS_PARALLELISM",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn nothing_secret_of_a_job_is_shown() {
        let job = json!({
            "kind": "MPIJob",
            "metadata": {"name": "train", "managedFields": [{"manager": "x"}],
                "annotations": {LAST_APPLIED: "{\"s\":\"hunter2\"}", "team.example/token": "hunter2"}},
            "spec": {"containers": [{
                "command": ["train", "--password", "hunter2", "--api-token=hunter2", "--epochs", "3"],
                "args": ["sh", "-c", "export HF_TOKEN='hunter2'; PGPASSWORD=hunter2 run --lr=0.1"],
                "env": [
                    {"name": "API_KEY", "value": "hunter2"},
                    {"name": "DATA", "value": "https://lara:hunter2@data.example/set"},
                    {"name": "LR", "value": "0.1"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
            }]},
        });
        let shown = shown(&job);
        let text = shown.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for kept in [
            "--epochs",
            "--lr=0.1",
            "secretKeyRef",
            "\"LR\"",
            "lara",
            "data.example/set",
        ] {
            assert!(text.contains(kept), "{kept} is not in {text}");
        }
        assert!(shown["metadata"].get("managedFields").is_none());
    }

    #[test]
    fn a_secret_shows_its_keys_alone() {
        let secret = json!({"kind": "Secret", "data": {"id_rsa": "aHVudGVyMg=="}});
        assert_eq!(shown(&secret)["data"], json!({"id_rsa": LEFT_OUT}));
    }
}
