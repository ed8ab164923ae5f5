//! `kubeflow.org/v2beta1` `MPIJob`, as Kubeflow's MPI operator v2 serves it. This file is the
//! dialect's row and the names that its parts share.

pub mod defaults;
mod fields;
pub mod lower;
mod report;
pub mod types;

use crate::kubeflow::{self, MPI_OPERATOR, MULTIKUEUE, fields as shared};
use crate::{Dialect, muster_fields};

/// `managedBy` of jobs that are ours.
const MANAGED_BY_US: &str = MPI_OPERATOR;
/// Every `managedBy` that is known.
const MANAGED_BY_VALUES: [&str; 2] = [MANAGED_BY_US, MULTIKUEUE];

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    name: defaults::DIALECT_NAME,
    version: defaults::DIALECT_NAME,
    fields: &[shared::SHARED, fields::FIELDS, muster_fields::FIELDS],
    launcher_role: "launcher",
    suspend_field: Some(kubeflow::SUSPEND_FIELD),
    set_command: kubeflow::set_command,
    set_no_retries: kubeflow::set_no_retries,
    fixed_transport: None,
    managed_elsewhere: lower::managed_elsewhere,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};
