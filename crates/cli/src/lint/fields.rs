//! Fields that the schema does not name, and values of a shape that it does not allow. Decides
//! which name was probably meant, or which place.

use std::collections::BTreeSet;

use quantity::Quantity;
use regex::Regex;
use serde_json::{Map, Value};

use super::{Finding, error};
use crate::manifest::{self, Api};
use crate::schema::{self, Schema};
use crate::yaml::{Document, escaped};

/// More findings would help nobody.
const FINDINGS_MAX: usize = 100;
/// A longer list of names is not read.
const NAMES_MAX: usize = 12;
/// A longer value is not repeated whole.
const VALUE_MAX: usize = 60;
/// Names are taken for one another up to this distance.
const DISTANCE_MAX: usize = 3;

pub(super) fn check(document: &Document, dialect: &Api, schema: Schema) -> Vec<Finding> {
    let mut walk = Walk {
        document,
        kind: format!("{} {}", manifest::api_version(dialect), dialect.kind),
        root: schema,
        findings: Vec::new(),
    };
    walk.value(&document.value, schema, "");
    walk.metadata();
    walk.findings
}

struct Walk<'a> {
    document: &'a Document,
    kind: String,
    root: Schema,
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
                (_, Value::Number(number)) if schema.is_quantity() => {
                    let milli = number.as_f64().unwrap_or_default() * 1000.0;
                    match milli.fract() == 0.0 {
                        true => format!("a quantity: write {milli:.0}m"),
                        false => format!("a quantity: write \"{number}\""),
                    }
                }
                ("string", Value::Number(_) | Value::Bool(_)) => {
                    format!("a string: write \"{value}\"")
                }
                _ => format!("{} is expected", article(kind)),
            };
            self.findings.push(finding);
            return;
        }
        match value {
            Value::String(text) if schema.is_quantity() && Quantity::parse(text).is_none() => {
                let message = format!("{} is not a quantity: {}", dotted(pointer), shown(value));
                let mark = self.document.value_mark(pointer);
                let mut finding = error("Invalid", message, mark);
                finding.label = "a number with a unit such as m, k, M, G, Ki, Mi or Gi".to_owned();
                self.findings.push(finding);
            }
            Value::String(text) => {
                if let Some(pattern) = schema.pattern().filter(|pattern| !matches(pattern, text)) {
                    let message = format!(
                        "{} must match {pattern}, not {}",
                        dotted(pointer),
                        shown(value)
                    );
                    let mark = self.document.value_mark(pointer);
                    self.findings.push(error("Invalid", message, mark));
                }
            }
            Value::Object(map) if !schema.takes_anything() => {
                self.missing(map, schema, pointer);
                for (key, below) in map {
                    let pointer = format!("{pointer}/{}", escaped(key));
                    match schema.below(key) {
                        Some(schema) => self.value(below, schema, &pointer),
                        None => self.unknown(key, schema, &pointer),
                    }
                }
            }
            Value::Array(items) => {
                self.repeated(items, schema, pointer);
                if let Some(schema) = schema.element() {
                    for (index, item) in items.iter().enumerate() {
                        self.value(item, schema, &format!("{pointer}/{index}"));
                    }
                }
            }
            _ => {}
        }
    }

    /// The object's own metadata.
    fn metadata(&mut self) {
        let Some(Value::Object(metadata)) = self.document.value.get("metadata") else {
            return;
        };
        for (key, value) in metadata {
            let pointer = format!("/metadata/{}", escaped(key));
            if !schema::METADATA.contains(&key.as_str()) {
                let message = format!("{} is not a field of {}", dotted(&pointer), self.kind);
                let mark = self.document.key_mark(&pointer);
                let mut finding = error("UnknownField", message, mark);
                finding.label = match nearest(key, &schema::METADATA) {
                    Some(name) => format!("did you mean {name}?"),
                    None if value.as_str().is_some_and(|text| !text.is_empty()) => {
                        "belongs in metadata.labels".to_owned()
                    }
                    None => "no such field".to_owned(),
                };
                self.findings.push(finding);
            }
            let texts = value.as_object().into_iter().flatten();
            let texts = texts.filter(|_| matches!(key.as_str(), "labels" | "annotations"));
            for (name, text) in texts.filter(|(_, text)| !text.is_string() && !text.is_null()) {
                let pointer = format!("{pointer}/{}", escaped(name));
                let message = format!("{} must be a string, not {}", dotted(&pointer), shown(text));
                let mut finding = error("WrongType", message, self.document.value_mark(&pointer));
                finding.label = match text {
                    Value::Number(_) | Value::Bool(_) => format!("a string: write \"{text}\""),
                    _ => "a string is expected".to_owned(),
                };
                self.findings.push(finding);
            }
        }
    }

    /// Fields that must be there and are not.
    fn missing(&mut self, map: &Map<String, Value>, schema: Schema, pointer: &str) {
        for name in schema.required() {
            if map.get(name).is_some_and(|value| !value.is_null()) {
                continue;
            }
            let path = dotted(&format!("{pointer}/{name}"));
            let message = format!("{path} is required");
            let mark = self.document.key_mark(pointer);
            self.findings.push(error("Invalid", message, mark));
        }
    }

    /// Items that have the same key as another one: the API server refuses them.
    fn repeated(&mut self, items: &[Value], schema: Schema, pointer: &str) {
        let keys = schema.item_keys();
        let default = |key: &str| Some(schema.element()?.below(key)?.default()?.clone());
        let of = |item: &Value| -> Vec<Value> {
            let value = |key: &&str| match item.get(*key) {
                None | Some(Value::Null) => default(key).unwrap_or_default(),
                Some(value) => value.clone(),
            };
            keys.iter().map(value).collect()
        };
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let values = of(item);
            // One that lacks a key is told so.
            let is_whole = !values.is_empty() && values.iter().all(|value| !value.is_null());
            if !is_whole || seen.insert(Value::from(values).to_string()) {
                continue;
            }
            let pointer = format!("{pointer}/{index}");
            let (path, keys) = (dotted(&pointer), keys.join(" and "));
            let message = format!("{path} has the {keys} of an item before it");
            let mark = self.document.value_mark(&pointer);
            let mut finding = error("Invalid", message, mark);
            finding.label = "the API server refuses the second one".to_owned();
            self.findings.push(finding);
        }
    }

    fn unknown(&mut self, key: &str, schema: Schema, pointer: &str) {
        let path = dotted(pointer);
        let message = format!("{path} is not a field of {}", self.kind);
        let mut finding = error("UnknownField", message, self.document.key_mark(pointer));
        let names: Vec<&str> = schema.fields().map(|(name, _)| name).collect();
        if let Some(name) = nearest(key, &names) {
            finding.label = format!("did you mean {name}?");
        } else if let Some(place) = self.right_place(key, schema, pointer) {
            finding.label = format!("belongs in {place}");
        } else if let Some(other) = elsewhere(pointer) {
            let own = &self.kind;
            finding.message =
                format!("{path} belongs to {other}, but apiVersion and kind say {own}");
            finding.label = format!("a field of {other}");
            finding.advice = format!("write the apiVersion and kind of {other}, or remove {path}");
        } else if names.is_empty() {
            finding.label = "no such field".to_owned();
        } else {
            finding.label = format!("known here: {}", listed(&names));
        }
        self.findings.push(finding);
    }

    /// Where a field of this name is one: nearby below, or around.
    fn right_place(&self, key: &str, schema: Schema, pointer: &str) -> Option<String> {
        let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
        // `metadata: {app: x}` is meant as a label.
        if parent.ends_with("/metadata") && self.document.value.pointer(pointer)?.is_string() {
            return Some(format!("{}.labels", dotted(parent)));
        }
        for (name, below) in schema.fields() {
            let (element, items) = match below.kind() {
                "array" => (below.element(), "[]"),
                _ => (Some(below), ""),
            };
            let is_field = |element: Schema| element.fields().any(|(name, _)| name == key);
            if element.is_some_and(is_field) {
                let path = dotted(&format!("{parent}/{name}"));
                return Some(format!("{path}{items}"));
            }
        }
        let mut around = parent;
        while let Some((outer, _)) = around.rsplit_once('/') {
            around = outer;
            let mut schema = self.root;
            let steps = around.split('/').skip(1);
            let found = steps.into_iter().all(|step| match schema.below(step) {
                Some(below) => {
                    schema = below;
                    true
                }
                None => false,
            });
            if found && schema.fields().any(|(name, _)| name == key) {
                return Some(match dotted(around) {
                    path if path.is_empty() => "the object itself".to_owned(),
                    path => path,
                });
            }
        }
        None
    }
}

/// Names for a person to look through.
fn listed(names: &[&str]) -> String {
    let first = &names[..names.len().min(NAMES_MAX)];
    match names.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more (`muster fields`)", first.join(", ")),
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

/// As the API server sees it; what it could not have compiled, it would not have taken.
fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
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
        Value::String(text) if text.chars().count() > VALUE_MAX => {
            let begin: String = text.chars().take(VALUE_MAX).collect();
            format!("a string that begins with {begin:?}")
        }
        Value::String(text) => format!("the string {text:?}"),
        other => other.to_string(),
    }
}

/// `/spec/containers/0/name` as `spec.containers[0].name`.
pub(super) fn dotted(pointer: &str) -> String {
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
