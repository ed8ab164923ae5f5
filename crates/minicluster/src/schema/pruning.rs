//! Removal of fields that a custom resource's schema does not know. Decides which go, and names
//! them for whoever wants to be strict.

use serde_json::Value;

use super::Schema;

/// Removes unknown fields below `value`; their paths go to `unknown`.
pub(crate) fn prune(value: &mut Value, schema: &Schema, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in names {
                if schema.embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                let below = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                match schema.field(&name) {
                    Some(field) => {
                        let value = fields.get_mut(&name).expect("the name is one of the keys");
                        prune(value, field, &below, unknown);
                    }
                    None if schema.open => {}
                    None => {
                        fields.remove(&name);
                        unknown.push(below);
                    }
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                prune(item, schema, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}
