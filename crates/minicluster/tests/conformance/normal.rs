//! What two servers cannot have in common is replaced by marks: UIDs, revisions, times, generated
//! names, addresses. Everything else must be equal.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").expect("it is a pattern")
});
static UID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
        .expect("it is a pattern")
});
static GENERATED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bgen-[bcdfghjklmnpqrstvwxz2456789]{5}\b").expect("it is a pattern")
});
static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b10\.\d+\.\d+\.\d+\b").expect("it is a pattern"));

/// What one server says and the other does not, no more of a sentence than that: each with what is left.
static WORDS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let words = [
        // Go's own words about what it could not read.
        (r"(version/kind; json parse error: ).+$", "${1}WORDS"),
        (r"(continue key is not valid): invalid character .*$", "$1"),
        (r"( is missing in '.*') \(.* \.\.\.\)$", "$1"),
        // A patch makes another kind of an object. Go reads it as that kind before it compares kinds.
        (
            r"converting \(v1\.Secret\) to \(core\.ConfigMap\): unknown conversion$",
            "illegal base64 data at input byte 0",
        ),
        // Whole objects within a sentence: Go prints its own types.
        (r#"Invalid value: "\{.*\}": "#, "Invalid value: OBJECT: "),
        (r"Invalid value: \{.*\}: ", "Invalid value: OBJECT: "),
        // Revisions.
        (r"(current:) \d+", "$1 REVISION"),
        (
            r"( in the precondition| in record) \(\d+\)",
            "$1 (REVISION)",
        ),
        // Ages.
        (r"^\d+s$", "AGE"),
        // Representations that nobody asks for.
        (r"(, \S+;stream=watch)+$", ""),
    ];
    let pattern = |text: &str| Regex::new(text).expect("it is a pattern");
    words.map(|(text, left)| (pattern(text), left)).into()
});

/// Marks that one arm was given so far, within one case.
#[derive(Default)]
pub(crate) struct Normal {
    uids: Vec<String>,
    revisions: Vec<String>,
}

impl Normal {
    fn mark(list: &mut Vec<String>, name: &str, value: &str) -> String {
        let index = list.iter().position(|one| one == value).unwrap_or_else(|| {
            list.push(value.to_owned());
            list.len() - 1
        });
        format!("{name}{index}")
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (words, left) in WORDS.iter() {
            text = words.replace_all(&text, *left).into_owned();
        }
        let text = TIME.replace_all(&text, "TIME");
        let text = GENERATED.replace_all(&text, "gen-*****");
        let text = ADDRESS.replace_all(&text, "ADDRESS");
        let uids = &mut self.uids;
        UID.replace_all(&text, |found: &regex::Captures<'_>| {
            Self::mark(uids, "UID", &found[0])
        })
        .into_owned()
    }

    fn value(&mut self, value: Value, within: &str) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.value(item, within))
                .collect(),
            Value::Object(mut fields) => {
                unordered(&mut fields);
                if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                    // They are sorted by time, and a second may pass between any two requests.
                    let of = |entry: &Value, field: &str| entry[field].to_string();
                    entries.sort_by_key(|entry| {
                        let who = (of(entry, "manager"), of(entry, "subresource"));
                        (of(entry, "operation"), who, of(entry, "apiVersion"))
                    });
                }
                if within == "columnDefinitions" {
                    // What columns are for is said in our own words, or not at all.
                    fields.remove("description");
                }
                let list = fields.contains_key("items") || fields.contains_key("rows");
                let mut out = Map::new();
                for (name, value) in fields {
                    let value = match (name.as_str(), &value) {
                        ("metadata", Value::Object(_)) if list => {
                            let mut metadata = value;
                            if let Some(fields) = metadata.as_object_mut() {
                                fields.remove("resourceVersion");
                                if fields.contains_key("continue") {
                                    fields.insert("continue".to_owned(), "TOKEN".into());
                                }
                            }
                            metadata
                        }
                        ("resourceVersion", Value::String(text)) => {
                            Self::mark(&mut self.revisions, "RV", text).into()
                        }
                        _ => self.value(value, &name),
                    };
                    out.insert(self.text(&name), value);
                }
                Value::Object(out)
            }
            other => other,
        }
    }

    /// A whole answer.
    pub(crate) fn whole(
        &mut self,
        text: &[u8],
        known: &mut BTreeMap<String, String>,
        step: usize,
    ) -> Value {
        let Ok(body) = serde_json::from_slice::<Value>(text) else {
            return String::from_utf8_lossy(text).into_owned().into();
        };
        for (name, field) in [
            ("uid", "uid"),
            ("rv", "resourceVersion"),
            ("continue", "continue"),
        ] {
            if let Some(value) = body["metadata"][field].as_str() {
                known.insert(format!("${{{step}.{name}}}"), value.to_owned());
            }
        }
        self.value(body, "")
    }

    /// The lines of a watch, without the bookmarks that come when they please.
    pub(crate) fn lines(&mut self, text: &[u8]) -> Value {
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let events = lines.filter_map(|line| {
            let mut event: Value = serde_json::from_slice(line).ok()?;
            if event["type"] == "BOOKMARK" {
                let metadata = &event["object"]["metadata"];
                let end = metadata["annotations"]["k8s.io/initial-events-end"].clone();
                if end.is_null() {
                    return None;
                }
                event["object"] = end;
            }
            Some(self.value(event, ""))
        });
        events.collect()
    }
}

/// Several mistakes are told in any order.
fn unordered(status: &mut Map<String, Value>) {
    let causes = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"));
    let Some(Value::Array(causes)) = causes else {
        return;
    };
    causes.sort_by_key(Value::to_string);
    if causes.len() > 1
        && let Some(Value::String(message)) = status.get_mut("message")
        && let Some(at) = message.find(" is invalid: [")
    {
        message.truncate(at);
    }
}

/// Where two answers differ.
pub(crate) fn differ(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let none = Value::Null;
                let (a, b) = (a.get(name), b.get(name));
                if a.is_none() || b.is_none() {
                    let shown =
                        |value: Option<&Value>| value.map_or("-".to_owned(), Value::to_string);
                    found.push(format!(
                        "{path}.{name}: ours {} theirs {}",
                        shown(a),
                        shown(b)
                    ));
                } else {
                    differ(
                        a.unwrap_or(&none),
                        b.unwrap_or(&none),
                        &format!("{path}.{name}"),
                        found,
                    );
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differ(a, b, &format!("{path}[{index}]"), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: ours {a} theirs {b}")),
    }
}
