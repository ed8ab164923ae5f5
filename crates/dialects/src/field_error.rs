//! One thing that is wrong with a job, by the path of its field, in the words that Kubernetes
//! uses. Decides only how an error is spelled.

use std::fmt;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, e.g. `spec.mpiReplicaSpecs[Worker].replicas`.
    pub path: String,
    /// What is wrong with it, e.g. `Invalid value: 0: must be greater than or equal to 1`.
    pub problem: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}
