//! Removal of fields that a custom resource's schema does not know. Decides which go, and names
//! them for whoever wants to be strict.

use serde_json::Value;

use super::Schema;
use super::path::Path;

/// Removes unknown fields below `value`; their paths go to `unknown`.
pub(crate) fn prune(value: &mut Value, schema: &Schema, unknown: &mut Vec<String>) {
    below(value, schema, &Path::Root, unknown);
}

fn below(value: &mut Value, schema: &Schema, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            if schema.embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let path = Path::Field(path, name);
            match schema.field(name) {
                Some(field) => below(value, field, &path, unknown),
                None if schema.open => {}
                None => {
                    unknown.push(path.to_string());
                    return false;
                }
            }
            true
        }),
        Value::Array(items) => {
            let Some(schema) = &schema.items else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                below(item, schema, &Path::Item(path, index), unknown);
            }
        }
        _ => {}
    }
}
