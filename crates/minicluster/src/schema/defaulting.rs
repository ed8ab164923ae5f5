//! Values that a custom resource's schema fills in. Decides where: only in objects that are there.

use serde_json::Value;

use super::Schema;

/// Fills in what is missing below `value`. A null where none is allowed counts as missing.
pub(crate) fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, field) in &schema.fields {
                let Some(default) = &field.default else {
                    continue;
                };
                let missing = match fields.get(name) {
                    None => true,
                    Some(value) => value.is_null() && !field.nullable,
                };
                if missing {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(field) = schema.field(name) {
                    fill(value, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| fill(item, schema));
            }
        }
        _ => {}
    }
}

/// Drops nulls where none is allowed: the API server does so before it validates.
pub(crate) fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let known = schema.fields.get(name);
                !(value.is_null() && known.is_some_and(|field| !field.nullable))
            });
            for (name, value) in fields.iter_mut() {
                if let Some(field) = schema.field(name) {
                    drop_nulls(value, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| drop_nulls(item, schema));
            }
        }
        _ => {}
    }
}
