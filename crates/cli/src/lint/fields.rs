//! Fields that the schema does not name, and values of a shape that it does not allow. Decides
//! which name was probably meant.

use serde_json::Value;

use super::{Finding, error};
use crate::manifest::{self, Api};
use crate::schema::{self, Schema};
use crate::yaml::{Document, escaped};

/// More findings would help nobody.
const FINDINGS_MAX: usize = 100;
/// Names are taken for one another up to this distance.
const DISTANCE_MAX: usize = 3;

pub(super) fn check(document: &Document, dialect: &Api, schema: Schema) -> Vec<Finding> {
    let mut walk = Walk {
        document,
        kind: format!("{} {}", manifest::api_version(dialect), dialect.kind),
        findings: Vec::new(),
    };
    walk.value(&document.value, schema, "");
    walk.findings
}

struct Walk<'a> {
    document: &'a Document,
    kind: String,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, schema: Schema, pointer: &str) {
        if self.findings.len() >= FINDINGS_MAX || value.is_null() {
            return;
        }
        if !fits(value, schema) {
            let (kind, path) = (schema.kind(), dotted(pointer));
            let message = format!("{path} must be {}, not {}", article(kind), shown(value));
            let mark = self.document.value_mark(pointer);
            let mut finding = error("WrongType", message, mark);
            finding.label = match (kind, value) {
                ("string", Value::Number(_) | Value::Bool(_)) => {
                    format!("a string: write \"{value}\"")
                }
                _ => format!("{} is expected", article(kind)),
            };
            self.findings.push(finding);
            return;
        }
        match value {
            Value::Object(map) if !schema.takes_anything() => {
                for (key, below) in map {
                    let pointer = format!("{pointer}/{}", escaped(key));
                    match schema.below(key) {
                        Some(schema) => self.value(below, schema, &pointer),
                        None => self.unknown(key, schema, &pointer),
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = schema.element() {
                    for (index, item) in items.iter().enumerate() {
                        self.value(item, schema, &format!("{pointer}/{index}"));
                    }
                }
            }
            _ => {}
        }
    }

    fn unknown(&mut self, key: &str, schema: Schema, pointer: &str) {
        let path = dotted(pointer);
        let message = format!("{path} is not a field of {}", self.kind);
        let mut finding = error("UnknownField", message, self.document.key_mark(pointer));
        let names: Vec<&str> = schema.fields().map(|(name, _)| name).collect();
        if let Some(name) = nearest(key, &names) {
            finding.label = format!("did you mean {name}?");
        } else if let Some(other) = elsewhere(pointer) {
            let own = &self.kind;
            finding.message =
                format!("{path} belongs to {other}, but apiVersion and kind say {own}");
            finding.label = format!("a field of {other}");
            finding.advice = format!("write the apiVersion and kind of {other}, or remove {path}");
        } else if names.is_empty() {
            finding.label = "no such field".to_owned();
        } else {
            finding.label = format!("known here: {}", names.join(", "));
        }
        self.findings.push(finding);
    }
}

/// The name that was probably meant.
pub(crate) fn nearest<'n>(given: &str, names: &[&'n str]) -> Option<&'n str> {
    let small = given.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &small);
    let best = names.iter().min_by_key(|name| distance(name))?;
    let limit = DISTANCE_MAX.min(given.chars().count() / 2);
    (distance(best) <= limit).then_some(*best)
}

/// Another API in which this very path is a field.
fn elsewhere(pointer: &str) -> Option<String> {
    manifest::apis().iter().find_map(|dialect| {
        let mut schema = schema::of(dialect.group, dialect.version, dialect.kind)?;
        for key in pointer.split('/').skip(1) {
            if schema.takes_anything() {
                return None;
            }
            schema = schema.below(key)?;
        }
        Some(format!(
            "{} {}",
            manifest::api_version(dialect),
            dialect.kind
        ))
    })
}

fn fits(value: &Value, schema: Schema) -> bool {
    match schema.kind() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "int-or-string" => value.is_string() || value.is_i64() || value.is_u64(),
        _ => true,
    }
}

fn article(kind: &str) -> String {
    match kind {
        "integer" | "object" | "array" => format!("an {kind}"),
        "boolean" => "true or false".to_owned(),
        "int-or-string" => "an integer or a string".to_owned(),
        _ => format!("a {kind}"),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("the string {text:?}"),
        other => other.to_string(),
    }
}

/// `/spec/containers/0/name` as `spec.containers[0].name`.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{part}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&part);
        }
    }
    path
}
