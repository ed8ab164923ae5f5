//! What becomes of a built-in object when the API server reads it into its own types and writes it
//! again: unknown fields and empty optional ones vanish, amounts and times take their usual form,
//! and a value of the wrong shape is refused. Decides nothing about meaning.

use serde_json::{Map, Value};

use super::format;
use super::{Kind, Schema};

/// Reads and rewrites `value` in place. Unknown fields are removed and named in `unknown`; the
/// error is the decoder's sentence.
pub(crate) fn decode(
    value: &mut Value,
    schema: &Schema,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let mut reader = Reader {
        unknown,
        path: Vec::new(),
        fields: Vec::new(),
        within: String::new(),
    };
    reader.read(value, schema)
}

struct Reader<'a> {
    unknown: &'a mut Vec<String>,
    /// With indices, for unknown fields.
    path: Vec<String>,
    /// Without, for wrong shapes.
    fields: Vec<String>,
    /// The innermost struct.
    within: String,
}

impl Reader<'_> {
    fn read(&mut self, value: &mut Value, schema: &Schema) -> Result<(), String> {
        match (schema.kind, &mut *value) {
            (_, Value::Null) | (Kind::Any, _) => Ok(()),
            (Kind::Object, Value::Object(fields)) => self.object(fields, schema),
            (Kind::Array, Value::Array(items)) => {
                let Some(schema) = &schema.items else {
                    return Ok(());
                };
                for (index, item) in items.iter_mut().enumerate() {
                    self.path.push(format!("[{index}]"));
                    self.read(item, schema)?;
                    self.path.pop();
                }
                Ok(())
            }
            (Kind::String, Value::String(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Number, Value::Number(_))
            | (Kind::IntOrString, Value::String(_)) => Ok(()),
            (Kind::Integer | Kind::IntOrString, Value::Number(number)) => {
                let Some(whole) = format::whole(number) else {
                    return Err(self.wrong(&format!("number {number}"), schema));
                };
                if integer_type(schema) == "int32" && i32::try_from(whole).is_err() {
                    return Err(self.wrong(&format!("number {number}"), schema));
                }
                *value = whole.into();
                Ok(())
            }
            (Kind::Quantity, Value::String(_) | Value::Number(_)) => {
                let text = match &*value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                *value = format::quantity(&text)?.into();
                Ok(())
            }
            (Kind::Time, Value::String(text)) => {
                *value = format::time(text)?.into();
                Ok(())
            }
            (Kind::MicroTime, Value::String(text)) => {
                *value = format::micro_time(text)?.into();
                Ok(())
            }
            (_, other) => Err(self.wrong(word(other), schema)),
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>, schema: &Schema) -> Result<(), String> {
        if schema.fields.is_empty() {
            return self.map(fields, schema);
        }
        let outer = std::mem::replace(
            &mut self.within,
            schema.type_name.clone().unwrap_or_default(),
        );
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            let Some(field) = schema.fields.get(&name) else {
                self.path.push(name.clone());
                self.unknown.push(dotted(&self.path));
                self.path.pop();
                fields.remove(&name);
                continue;
            };
            let value = fields.get_mut(&name).expect("the name is one of the keys");
            self.path.push(name.clone());
            self.fields.push(name.clone());
            self.read(value, field)?;
            self.fields.pop();
            self.path.pop();
            if value.is_null() || (field.omit_empty && is_zero(value, field)) {
                fields.remove(&name);
            }
        }
        for (name, field) in &schema.fields {
            if field.always && field.kind == Kind::Object && !fields.contains_key(name) {
                let mut empty = Value::Object(Map::new());
                self.read(&mut empty, field)?;
                fields.insert(name.clone(), empty);
            } else if let Some(absent) = &field.absent
                && !fields.contains_key(name)
            {
                fields.insert(name.clone(), absent.clone());
            }
        }
        self.within = outer;
        Ok(())
    }

    fn map(&mut self, fields: &mut Map<String, Value>, schema: &Schema) -> Result<(), String> {
        let Some(values) = &schema.values else {
            return Ok(());
        };
        for (name, value) in fields.iter_mut() {
            self.path.push(name.clone());
            self.read(value, values)?;
            self.path.pop();
            // A Go map of strings has no nulls.
            if value.is_null() && values.kind == Kind::String {
                *value = "".into();
            }
        }
        Ok(())
    }

    fn wrong(&self, found: &str, schema: &Schema) -> String {
        let wanted = go_type(schema);
        if self.fields.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            self.within,
            self.fields.join(".")
        )
    }
}

fn dotted(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if !text.is_empty() && !part.starts_with('[') {
            text.push('.');
        }
        text.push_str(part);
    }
    text
}

/// A value that Go takes for empty; structs never are.
fn is_zero(value: &Value, schema: &Schema) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0) && schema.kind != Kind::IntOrString,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && schema.fields.is_empty(),
        Value::Bool(true) => false,
    }
}

fn integer_type(schema: &Schema) -> &'static str {
    let format = schema
        .limits
        .as_ref()
        .and_then(|limits| limits.format.as_deref());
    match format {
        Some("int64") => "int64",
        _ => "int32",
    }
}

fn go_type(schema: &Schema) -> String {
    match schema.kind {
        Kind::String => "string".to_owned(),
        Kind::Boolean => "bool".to_owned(),
        Kind::Integer => integer_type(schema).to_owned(),
        Kind::Number => "float64".to_owned(),
        Kind::Array => format!(
            "[]{}",
            schema.items.as_deref().map(go_type).unwrap_or_default()
        ),
        Kind::Object if schema.fields.is_empty() => {
            let values = schema.values.as_deref().map(go_type).unwrap_or_default();
            format!("map[string]{values}")
        }
        _ => format!("v1.{}", schema.type_name.as_deref().unwrap_or_default()),
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
