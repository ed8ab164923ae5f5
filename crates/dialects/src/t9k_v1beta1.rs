//! `batch.tensorstack.dev/v1beta1` `MPIJob`, as the T9k platform serves it, in the three shapes that
//! its manuals have had. This file is the dialect's row and the names that its parts share.

pub mod defaults;
pub mod lower;
pub mod report;
pub mod types;

use crate::{Dialect, muster_fields};

/// API group.
pub const GROUP: &str = "batch.tensorstack.dev";
/// The only version there is.
pub const VERSION: &str = "v1beta1";
/// Kind.
pub const KIND: &str = "MPIJob";
/// Plural resource name.
pub const PLURAL: &str = "mpijobs";
const API_VERSION: &str = "batch.tensorstack.dev/v1beta1";

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    name: "t9k",
    fields: &[types::FIELDS, muster_fields::FIELDS],
    // The platform has no field that would hand a job to another controller.
    managed_elsewhere: |_| false,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};
