//! What becomes of a built-in object when the API server reads it into its own types and writes it
//! again: unknown fields and empty optional ones vanish, amounts and times take their usual form,
//! and a value of the wrong shape is refused. Decides nothing about meaning.

use serde_json::{Map, Value};

use super::path::Path;
use super::{Kind, Schema, format};

/// Reads and rewrites `value` in place. Unknown fields are removed and named in `unknown`; the
/// error is the decoder's sentence.
pub(crate) fn decode(
    value: &mut Value,
    schema: &Schema,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let mut reader = Reader { unknown };
    reader.read(value, schema, &Path::Root, "")
}

struct Reader<'a> {
    unknown: &'a mut Vec<String>,
}

impl Reader<'_> {
    /// `within` is the innermost struct.
    fn read(
        &mut self,
        value: &mut Value,
        schema: &Schema,
        path: &Path<'_>,
        within: &str,
    ) -> Result<(), String> {
        match (schema.kind, &mut *value) {
            (_, Value::Null) | (Kind::Any, _) => Ok(()),
            (Kind::Object, Value::Object(fields)) => self.object(fields, schema, path, within),
            (Kind::Array, Value::Array(items)) => {
                let Some(schema) = &schema.items else {
                    return Ok(());
                };
                for (index, item) in items.iter_mut().enumerate() {
                    self.read(item, schema, &Path::Item(path, index), within)?;
                }
                Ok(())
            }
            (Kind::String, Value::String(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Number, Value::Number(_))
            | (Kind::IntOrString, Value::String(_)) => Ok(()),
            (Kind::Integer | Kind::IntOrString, Value::Number(number)) => {
                let Some(whole) = format::whole(number) else {
                    return Err(wrong(&format!("number {number}"), schema, path, within));
                };
                if integer_type(schema) == "int32" && i32::try_from(whole).is_err() {
                    return Err(wrong(&format!("number {number}"), schema, path, within));
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
            (_, other) => Err(wrong(word(other), schema, path, within)),
        }
    }

    fn object(
        &mut self,
        fields: &mut Map<String, Value>,
        schema: &Schema,
        path: &Path<'_>,
        within: &str,
    ) -> Result<(), String> {
        if schema.fields.is_empty() {
            return self.map(fields, schema, path, within);
        }
        let within = schema.type_name.as_deref().unwrap_or_default();
        let mut read = Ok(());
        fields.retain(|name, value| {
            let path = Path::Field(path, name);
            let Some(field) = schema.fields.get(name) else {
                self.unknown.push(path.to_string());
                return false;
            };
            if read.is_ok() {
                read = self.read(value, field, &path, within);
            }
            !(value.is_null() || (field.omit_empty && is_zero(value, field)))
        });
        read?;
        for (name, field) in &schema.fields {
            if field.always && field.kind == Kind::Object && !fields.contains_key(name) {
                let mut empty = Value::Object(Map::new());
                self.read(&mut empty, field, &Path::Field(path, name), within)?;
                fields.insert(name.clone(), empty);
            } else if let Some(absent) = &field.absent
                && !fields.contains_key(name)
            {
                fields.insert(name.clone(), absent.clone());
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        fields: &mut Map<String, Value>,
        schema: &Schema,
        path: &Path<'_>,
        within: &str,
    ) -> Result<(), String> {
        let Some(values) = &schema.values else {
            return Ok(());
        };
        for (name, value) in fields.iter_mut() {
            self.read(value, values, &Path::Key(path, name), within)?;
            // A Go map of strings has no nulls.
            if value.is_null() && values.kind == Kind::String {
                *value = "".into();
            }
        }
        Ok(())
    }
}

fn wrong(found: &str, schema: &Schema, path: &Path<'_>, within: &str) -> String {
    let wanted = go_type(schema);
    let fields = path.fields();
    if fields.is_empty() {
        return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
    }
    let fields = fields.join(".");
    format!(
        "json: cannot unmarshal {found} into Go struct field {within}.{fields} of type {wanted}"
    )
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
