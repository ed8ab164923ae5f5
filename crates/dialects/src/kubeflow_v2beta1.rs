//! `kubeflow.org/v2beta1` `MPIJob`: being written.

use crate::Dialect;

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    group: "kubeflow.org",
    version: "v2beta1",
    kind: "MPIJob",
    plural: "mpijobs",
    managed_elsewhere: |_| false,
    lower: |_| Err(Vec::new()),
    recorded: |_| planner::Recorded::default(),
    report: |_, _, _| crate::Report {
        status: serde_json::Value::Null,
        urgency: crate::Urgency::Unchanged,
        events: Vec::new(),
    },
};
