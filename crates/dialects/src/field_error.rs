//! One thing that is wrong with a job, by the path of its field, in the format that Kubernetes uses.
//! Decides only the text of an error and of a list of errors.

use std::collections::BTreeSet;
use std::fmt;

use planner::text::printable;
use serde_json::Value;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, e.g. `spec.mpiReplicaSpecs[Worker].replicas`.
    pub path: String,
    /// What is wrong with it, e.g. `Invalid value: 0: must be greater than or equal to 1`.
    pub problem: String,
}

impl FieldError {
    /// The field has to be there.
    pub(crate) fn required(path: &str, detail: &str) -> Self {
        Self {
            path: path.to_owned(),
            problem: format!("Required value: {detail}"),
        }
    }

    /// The field has a value that it may not have.
    pub(crate) fn invalid(path: &str, value: &Value, detail: &str) -> Self {
        let shown = match value {
            Value::String(text) => format!("{text:?}"),
            // Whole objects would drown the sentence.
            Value::Array(_) => "\"array\"".to_owned(),
            Value::Object(_) => "\"object\"".to_owned(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        };
        Self {
            path: path.to_owned(),
            problem: format!("Invalid value: {shown}: {detail}"),
        }
    }

    /// The field has none of the values that it may have.
    pub(crate) fn unsupported(path: &str, value: &str, supported: &[&str]) -> Self {
        let words: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
        Self {
            path: path.to_owned(),
            problem: format!(
                "Unsupported value: {value:?}: supported values: {}",
                words.join(", ")
            ),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// All errors as one text: a single one as it is, several in brackets, without repetitions.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = BTreeSet::new();
    // A path may contain a key that the user chose.
    let texts = errors
        .iter()
        .map(|error| printable(&error.to_string()).into_owned());
    let texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s07_no_value_and_no_key_tells_a_terminal_what_to_do() {
        let key = "spec.mpiReplicaSpecs[\u{1b}]52;c;ZXZpbA==\u{7}]";
        let value = "\u{1b}[2J\u{9b}1m\u{202e}";
        let text = aggregate(&[
            FieldError::required(key, "must be there"),
            FieldError::invalid(key, &value.into(), "must not be this"),
            FieldError::unsupported(key, value, &["On", "Off"]),
        ]);
        let is_hostile = |char: char| char.is_control() || char == '\u{202e}';
        assert!(!text.contains(is_hostile), "{text:?}");
        assert!(text.contains("spec.mpiReplicaSpecs[\u{fffd}]52;"), "{text}");
    }
}
