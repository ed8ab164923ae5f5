//! `kubeflow.org/v1` `MPIJob`, as Kubeflow's training operator serves it and as Flyte and the
//! training SDK write it. This file is the dialect's row and the names that its parts share.

mod defaults;
mod fields;
mod lower;
mod report;
mod types;

use crate::kubeflow::{self, MPI_OPERATOR, MULTIKUEUE, fields as shared};
use crate::{Dialect, muster_fields};

/// `managedBy` of jobs that are ours; its documentation allows the empty text.
const MANAGED_BY_US: [&str; 3] = ["", "kubeflow.org/training-operator", MPI_OPERATOR];
/// Every `managedBy` that is known.
const MANAGED_BY_VALUES: [&str; 4] = [
    MANAGED_BY_US[0],
    MANAGED_BY_US[1],
    MANAGED_BY_US[2],
    MULTIKUEUE,
];

/// What its launchers are labelled with.
const LAUNCHER_ROLE: &str = "master";

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    name: defaults::DIALECT_NAME,
    version: defaults::DIALECT_NAME,
    fields: &[shared::SHARED, fields::FIELDS, muster_fields::FIELDS],
    launcher_role: LAUNCHER_ROLE,
    suspend_field: Some(kubeflow::SUSPEND_FIELD),
    set_command: kubeflow::set_command,
    set_no_retries: kubeflow::set_no_retries,
    fixed_transport: None,
    managed_elsewhere: lower::managed_elsewhere,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};
