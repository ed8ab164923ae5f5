//! What of a job is not shown to those who get a report. Decides it by the names of variables, flags and keys,
//! because nothing else says which text is secret. Values from Secrets are not in a job, and nobody asks for
//! them here. Must not know where a dialect keeps its fields.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Stands for what is not shown.
pub(crate) const LEFT_OUT: &str = "(left out)";

/// kubectl keeps a whole copy of the object there, as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Words at the end of a part of a name that make it the name of a secret.
const SECRET_ENDINGS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "credential",
    "secretkey",
    "accesskey",
    "privatekey",
];
/// Whole parts of a name that do the same.
const SECRET_PARTS: [&str; 11] = [
    "key",
    "apikey",
    "auth",
    "authorization",
    "cookie",
    "jwt",
    "pass",
    "pat",
    "pwd",
    "sig",
    "signature",
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
    let is_secret = |part: &str| {
        SECRET_PARTS.contains(&part) || SECRET_ENDINGS.iter().any(|ending| part.ends_with(ending))
    };
    parts.iter().any(|part| {
        let part = part.trim_end_matches(|char: char| char.is_ascii_digit());
        is_secret(part) || part.strip_suffix('s').is_some_and(is_secret)
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

/// What a secret may follow: the user of an address, a flag, and a name with `=` or `:`. It ends where the value
/// begins, so a value is read as well: it may have names and values of its own.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"//(?<user>[^\s/"]*)@|(?<flag>--?[A-Za-z][\w.-]*)[ \t]+|(?<name>[A-Za-z][\w.-]*)(?:[ \t]*=|\\*["']?:)[ \t]*"#;
    Regex::new(pattern).expect("the pattern is constant")
});

/// A text as it may be shown: a command line, a message, a file, or a line of a log. The work grows with the
/// length of the text, whatever it is like.
pub(crate) fn text_shown(text: &str) -> Cow<'_, str> {
    let (mut shown, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = HEAD.captures_at(text, at) {
        at = found.get(0).map_or(text.len(), |head| head.end());
        if let Some(secret) = secret_after(text, &found).filter(|secret| !secret.is_empty()) {
            shown.push_str(&text[copied..secret.start]);
            shown.push_str(LEFT_OUT);
            copied = secret.end;
            at = at.max(copied);
        }
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(shown + &text[copied..]),
    }
}

/// Where the secret is.
fn secret_after(text: &str, found: &Captures<'_>) -> Option<Range<usize>> {
    let head = found.get(0)?;
    let before = &text[..head.start()];
    if let Some(user) = found.name("user") {
        return match user.as_str().split_once(':') {
            Some((name, _)) if !name.contains('=') => {
                Some(user.start() + name.len() + 1..user.end())
            }
            // Where there is no password, a user is a token, except that ssh takes keys.
            _ if before.ends_with("ssh:") => None,
            _ => Some(user.range()),
        };
    }
    let from = head.end();
    if let Some(flag) = found.name("flag") {
        let in_a_word =
            before.ends_with(|char: char| char.is_alphanumeric() || "_.-".contains(char));
        let has_none = in_a_word || text[from..].starts_with('-');
        if has_none || !is_secret_name(flag.as_str()) {
            return None;
        }
        let from = match text[from..].strip_prefix('=') {
            Some(value) => text.len() - value.trim_start_matches([' ', '\t']).len(),
            None => from,
        };
        return Some(from..value_end(text, from, &OPERATORS));
    }
    if !is_secret_name(&found["name"]) {
        return None;
    }
    if head.as_str().trim_end().ends_with('=') {
        return Some(from..value_end(text, from, &OPERATORS));
    }
    // `registry/name:tag` is an image, and what is in brackets has names of its own.
    let is_tag = before.ends_with('/') || text[from..].starts_with(['{', '[']);
    (!is_tag).then(|| from..block_end(text, from).unwrap_or_else(|| value_end(text, from, &[])))
}

/// What ends a word of a shell, or a part of an address.
const OPERATORS: [char; 3] = [';', '&', '|'];

/// Where a value ends that begins here: at its second quote, or with its word.
fn value_end(text: &str, from: usize, operators: &[char]) -> usize {
    let rest = &text[from..];
    if rest.starts_with(LEFT_OUT) {
        return from + LEFT_OUT.len();
    }
    let escapes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    if let Some(quote @ (b'"' | b'\'')) = rest.as_bytes().get(escapes) {
        let mut run = 0;
        for (at, byte) in rest.bytes().enumerate().skip(escapes + 1) {
            if byte == *quote && run <= escapes {
                return from + at + 1;
            }
            run = if byte == b'\\' { run + 1 } else { 0 };
        }
        return text.len();
    }
    let is_end =
        |char: char| char.is_whitespace() || "\"'".contains(char) || operators.contains(&char);
    let end = rest.find(is_end).unwrap_or(rest.len());
    let is_scheme = ["bearer", "basic", "token"].contains(&rest[..end].to_lowercase().as_str());
    if !is_scheme {
        return from + end;
    }
    let (scheme, credentials) = rest.split_at(end);
    let word = credentials.trim_start_matches([' ', '\t']);
    let spaces = credentials.len() - word.len();
    from + scheme.len() + spaces + word.find(is_end).unwrap_or(word.len())
}

/// Longer than `|`, `+` and an indentation, with blanks after them.
const SIGN_MAX: usize = 32;

/// Where a text of several lines ends, as YAML has them: `key: |`, and then lines that are indented more.
fn block_end(text: &str, from: usize) -> Option<usize> {
    // Only then is the end of the line looked for: many keys may be on one line without an end.
    if !text[from..].starts_with(['|', '>']) {
        return None;
    }
    let sign = text[from..].chars().take(SIGN_MAX);
    let sign = &text[from..][..sign.map(char::len_utf8).sum()];
    let (sign, _) = sign.split_once('\n')?;
    if sign.trim_end().len() > 3 {
        return None;
    }
    let line = text[..from].rfind('\n').map_or(0, |at| at + 1);
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let outer = indent(&text[line..from]);
    let mut end = from + sign.len() + 1;
    for line in text[end..].split_inclusive('\n') {
        let is_inside = line.trim().is_empty() || line.len() - line.trim_start().len() > outer;
        if !is_inside {
            break;
        }
        end += line.len();
    }
    Some(from + text[from..end].trim_end().len())
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
            "PASSWORD1",
            "TOKENS",
            "API_KEYS",
            "MINIO_SECRETKEY",
            "ACCESSKEY",
            "PRIVATEKEY2",
            "GITHUB_PAT",
            "X-Amz-Signature",
            "Set-Cookie",
            "sig",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "PATIENCE",
            "DESIGN",
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
    fn a_value_is_read_as_well() {
        for text in [
            "DATABASE_URL=postgres://u:hunter2@db/x",
            "--dsn=https://lara:hunter2@h",
            "--env=HF_TOKEN=hunter2",
            "url=https://h/?token=hunter2&x=1",
            "https://h?token=hunter2:1@x",
            "FOO=\"TOKEN=hunter2\" BAR='a=1 TOKEN=hunter2'",
            "redis://:hunter2@h",
            "redis://:hun@hunter2@h",
            "https://hunter2@github.com",
            "sh -c \"train --password hunter2\"",
            "-token  'hunter2' --lr 1",
            "--password = hunter2",
            "{\"user\":\"u\",\"password\":\"a \\\"hunter2\"}",
            r#"{\"password\":\"hunter2\",\"user\":\"u\"}"#,
            "{'token': 'hunter2'}",
            "user: u\npassword: hunter2\nlr: 1",
            "password: |\n  hunter2\n\n  hunter2\nlr: 1",
            "- key: >-\n    hunter2\n  lr: 1",
            "password = hunter2",
            "curl -H 'Authorization: Bearer hunter2' h",
            "TOKEN=\"hunter2",
        ] {
            let shown = text_shown(text);
            assert!(shown.contains(LEFT_OUT), "{text} is shown as {shown}");
            assert!(!shown.contains("hunter2"), "{text} is shown as {shown}");
            let twice = text_shown(&shown);
            assert!(!twice.contains(") out)"), "{shown} is shown as {twice}");
        }
    }

    /// With work that grows with the square of the length, this would take a quarter of an hour.
    #[test]
    fn many_secrets_on_one_line_are_found_in_one_pass() {
        let count = 300_000;
        let shown = text_shown(&"key:a ".repeat(count)).into_owned();
        assert_eq!(shown.len(), count * ("key: ".len() + LEFT_OUT.len()));
    }

    #[test]
    fn what_is_not_secret_stays() {
        for text in [
            "",
            "url=https://h:8080/?page=2 --lr=0.1 my-token value",
            "ssh://git@github.com/a/b mail lara@h",
            "Back-off pulling image \"registry/token-server:1.2\"",
            "MountVolume.SetUp failed for volume \"hub-token\" : secret \"hub\" not found",
            "12:30:01 rank 3: loss=0.25 \u{2603}=\u{2603}",
            "--use-auth --epochs 3",
        ] {
            assert_eq!(text_shown(text), text);
        }
        let shown = text_shown("password: |\n  hunter2\nlr: 1 --token x; next");
        assert_eq!(
            shown,
            format!("password: {LEFT_OUT}\nlr: 1 --token {LEFT_OUT}; next")
        );
        let shown = text_shown("a://u:p@h token=\"x y\" b=https://p@h");
        assert_eq!(
            shown,
            format!("a://u:{LEFT_OUT}@h token={LEFT_OUT} b=https://{LEFT_OUT}@h")
        );
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
