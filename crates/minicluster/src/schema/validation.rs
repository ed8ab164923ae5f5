//! Checks of a custom resource against its schema. Decides which values are refused and in which
//! words; the words are the API server's, because people and programs read them.

use serde_json::Value;

use super::path::Path;
use super::{Kind, Limits, ListKind, Schema};
use crate::status::Cause;

/// Everything that is wrong below `value`.
pub(crate) fn check(value: &Value, schema: &Schema, causes: &mut Vec<Cause>) {
    below(value, schema, &Path::Root, causes);
}

fn below(value: &Value, schema: &Schema, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if value.is_null() && schema.nullable {
        return;
    }
    if let Some(wanted) = wrong_type(value, schema.kind) {
        causes.extend(of_wrong_type(value, schema, wanted, &path.to_string()));
        return;
    }
    if let Some(limits) = &schema.limits {
        check_limits(value, limits, path, causes);
    }
    match value {
        Value::Object(fields) => {
            for name in &schema.required {
                if !fields.contains_key(name) {
                    let path = Path::Field(path, name).to_string();
                    causes.push(Cause::required(&path, ""));
                }
            }
            for (name, value) in fields {
                if let Some(field) = schema.field(name) {
                    below(value, field, &Path::Field(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    below(item, schema, &Path::Item(path, index), causes);
                }
            }
            check_unique(items, &schema.list, path, causes);
        }
        _ => {}
    }
}

fn of_wrong_type(value: &Value, schema: &Schema, wanted: &str, path: &str) -> Vec<Cause> {
    if let Some(format) = fraction_format(value, schema) {
        let said = format!("{path} in body must be of type {format}: \"float64\"");
        let first = Cause::wrong_type(path, "float64", &said);
        let said = format!(
            "Invalid value: \"\": Checked value must be of type integer with format {format} in {path}"
        );
        return vec![first, Cause::new("FieldValueInvalid", "<nil>", said)];
    }
    let found = type_word(value);
    let said = format!("{path} in body must be of type {wanted}: \"{found}\"");
    vec![Cause::wrong_type(path, found, &said)]
}

fn wrong_type(value: &Value, kind: Kind) -> Option<&'static str> {
    let (fits, wanted) = match kind {
        Kind::Any => (true, ""),
        Kind::Object => (value.is_object(), "object"),
        Kind::Array => (value.is_array(), "array"),
        Kind::String | Kind::Time | Kind::MicroTime | Kind::Quantity => {
            (value.is_string(), "string")
        }
        Kind::Integer => (
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0),
            "integer",
        ),
        Kind::Number => (value.is_number(), "number"),
        Kind::Boolean => (value.is_boolean(), "boolean"),
        Kind::IntOrString => (
            value.is_string() || value.is_i64() || value.is_u64(),
            "integer,string",
        ),
    };
    (!fits).then_some(wanted)
}

/// The format of the whole number that a fraction stands for.
fn fraction_format<'a>(value: &Value, schema: &'a Schema) -> Option<&'a str> {
    let limits = schema.limits.as_ref()?;
    let whole = schema.kind == Kind::Integer && value.is_f64();
    limits.format.as_deref().filter(|_| whole)
}

fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_limits(value: &Value, limits: &Limits, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if !limits.one_of.is_empty() && !limits.one_of.contains(value) {
        causes.push(Cause::unsupported(&path.to_string(), value, &limits.one_of));
    }
    match value {
        Value::String(text) => {
            let length = text.chars().count() as u64;
            if limits.length.1.is_some_and(|most| length > most) {
                let most = limits.length.1.unwrap_or_default();
                causes.push(Cause::too_long(&path.to_string(), most));
            }
            if let Some(least) = limits.length.0.filter(|least| length < *least) {
                let said = format!("{path} in body should be at least {least} chars long");
                causes.push(Cause::invalid(&path.to_string(), value, &said));
            }
            if let Some((pattern, Some(compiled))) = &limits.pattern
                && !compiled.is_match(text)
            {
                let said = format!("{path} in body should match '{pattern}'");
                causes.push(Cause::invalid(&path.to_string(), value, &said));
            }
            if limits.format.as_deref() == Some("date-time")
                && text.parse::<jiff::Timestamp>().is_err()
            {
                let said = format!("{path} in body must be of type date-time: \"{text}\"");
                causes.push(Cause::invalid(&path.to_string(), value, &said));
            }
        }
        Value::Number(number) => {
            check_number(
                number.as_f64().unwrap_or_default(),
                value,
                limits,
                path,
                causes,
            );
        }
        Value::Array(items) => check_count(items.len(), limits.items, path, "items", causes),
        Value::Object(fields) => {
            check_count(fields.len(), limits.fields, path, "properties", causes);
        }
        _ => {}
    }
}

fn check_number(
    number: f64,
    value: &Value,
    limits: &Limits,
    path: &Path<'_>,
    causes: &mut Vec<Cause>,
) {
    let mut say = |said: String| causes.push(Cause::invalid(&path.to_string(), value, &said));
    let bits = match limits.format.as_deref() {
        Some("int32") => Some((f64::from(i32::MIN), f64::from(i32::MAX))),
        _ => None,
    };
    if bits.is_some_and(|(least, most)| number < least || number > most) {
        say(format!("{path} in body must be of type int32: \"{value}\""));
    }
    if let Some((least, open)) = limits.minimum
        && (number < least || (open && number <= least))
    {
        let or_equal = if open { "" } else { " or equal to" };
        say(format!(
            "{path} in body should be greater than{or_equal} {least}"
        ));
    }
    if let Some((most, open)) = limits.maximum
        && (number > most || (open && number >= most))
    {
        let or_equal = if open { "" } else { " or equal to" };
        say(format!(
            "{path} in body should be less than{or_equal} {most}"
        ));
    }
    if let Some(unit) = limits.multiple_of
        && (number / unit).fract() != 0.0
    {
        say(format!("{path} in body should be a multiple of {unit}"));
    }
}

fn check_count(
    count: usize,
    (least, most): (Option<u64>, Option<u64>),
    path: &Path<'_>,
    of: &str,
    causes: &mut Vec<Cause>,
) {
    let count = count as u64;
    if let Some(most) = most.filter(|most| count > *most) {
        causes.push(Cause::too_many(&path.to_string(), count, most));
    }
    if let Some(least) = least.filter(|least| count < *least) {
        let said = format!("{path} in body should have at least {least} {of}");
        causes.push(Cause::invalid(&path.to_string(), &count.into(), &said));
    }
}

/// A set has no two equal items, a map no two with the same key.
fn check_unique(items: &[Value], list: &ListKind, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let mut seen: Vec<Value> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let key = match list {
            ListKind::Atomic => return,
            ListKind::Set => item.clone(),
            ListKind::Map(keys) => keys
                .iter()
                .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                .collect(),
        };
        if seen.contains(&key) {
            let path = Path::Item(path, index).to_string();
            causes.push(Cause::duplicate(&path, &key));
        } else {
            seen.push(key);
        }
    }
}
