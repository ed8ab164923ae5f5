//! `batch.test.bdap.com/v1` `MPIJob`: two pod templates and a number. Its workers are a StatefulSet
//! that its clients read, and are reached through the API server. This file is the dialect's row and
//! the names that its parts share.

pub mod defaults;
pub mod lower;
pub mod report;
pub mod types;

use planner::Kind;

use crate::{Dialect, command};

/// API group.
pub const GROUP: &str = "batch.test.bdap.com";
/// The only version there is.
pub const VERSION: &str = "v1";
/// Kind.
pub const KIND: &str = "MPIJob";
/// Plural resource name.
pub const PLURAL: &str = "mpijobs";
/// Children that other dialects do not have.
pub const ALSO_MAKES: &[Kind] = &[
    Kind::StatefulSet,
    Kind::ServiceAccount,
    Kind::Role,
    Kind::RoleBinding,
];
const API_VERSION: &str = "batch.test.bdap.com/v1";

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    name: "bdap",
    fields: &[types::FIELDS],
    launcher_role: "launcher",
    suspend_field: None,
    set_command: |job, words| command::set_in_template(job, "/spec/launcherTemplate", words),
    // Its launcher's restartPolicy is part of the template, and Always by default: the job goes on
    // until it is deleted.
    set_no_retries: |_| Vec::new(),
    // It has no field that would hand a job to another controller.
    managed_elsewhere: |_| false,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};
