//! CEL rules of custom resources (`x-kubernetes-validations`). Decides how the rules' verdicts
//! become field errors; the language itself is another crate's.

use std::sync::{Mutex, PoisonError};

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::Value;

use crate::status::Cause;

/// The compiled rules of one version of a kind.
pub(crate) struct Rules {
    schema: CompiledSchema,
    /// A write of the status alone may break one of them. Rules about what does not change are not
    /// checked again.
    pub(crate) reads_status: bool,
    /// Not to be shared between threads as it is.
    validator: Mutex<Validator>,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Rules")
    }
}

impl Rules {
    /// Of a CRD's `openAPIV3Schema`; none when it has no rules.
    pub(crate) fn of(document: &Value) -> Option<Self> {
        has_rules(document).then(|| Self {
            schema: compile_schema(document),
            reads_status: reads_status(document),
            validator: Mutex::new(Validator::new()),
        })
    }

    /// What the rules say against an object.
    pub(crate) fn check(&self, object: &Value, before: Option<&Value>) -> Vec<Cause> {
        let validator = self
            .validator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Err(errors) = validator.validate_compiled(&self.schema, object, before) else {
            return Vec::new();
        };
        errors
            .into_vec()
            .into_iter()
            .map(|error| {
                let message = format!("Invalid value: {}", error.message);
                Cause::new("FieldValueInvalid", &error.field_path, message)
            })
            .collect()
    }
}

/// Some rule stands below the status, or names it. What reads it only as it was before the write is about
/// other changes than those of the status.
fn reads_status(document: &Value) -> bool {
    let names_it = |rules: &Value| {
        let text = rules.to_string().replace("oldSelf.status", "");
        text.contains("status")
    };
    let below = has_rules(&document["properties"]["status"]);
    below || names_it(&document["x-kubernetes-validations"])
}

fn has_rules(document: &Value) -> bool {
    match document {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}
