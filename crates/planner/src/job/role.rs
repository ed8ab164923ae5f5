//! What launcher and worker pods of a job have in common.

use std::collections::BTreeMap;

use serde_json::Value;

/// One kind of pod of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// The user's pod template, as written.
    pub template: Value,
    /// Labels that clients find these pods by, beside those that every pod of a job has.
    pub labels: BTreeMap<String, String>,
    /// The container that MPI runs in; the first one when absent.
    pub container: Option<String>,
}
