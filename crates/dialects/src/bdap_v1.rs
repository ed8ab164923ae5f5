//! `batch.test.bdap.com/v1` `MPIJob`: two pod templates and a number. Its workers are a StatefulSet
//! that its clients read, and are reached through the API server. This file is the dialect's row and
//! the names that its parts share.

mod defaults;
mod fields;
mod lower;
mod report;
mod types;

use planner::Kind;

use crate::{Dialect, Resource, command};

/// Kind.
pub const KIND: &str = "MPIJob";
const API_VERSION: &str = "batch.test.bdap.com/v1";

/// The resource.
pub const RESOURCE: Resource = Resource {
    group: "batch.test.bdap.com",
    version: DIALECT.version,
    kind: KIND,
    plural: "mpijobs",
    is_required: false,
    also_makes: &[
        Kind::StatefulSet,
        Kind::ServiceAccount,
        Kind::Role,
        Kind::RoleBinding,
    ],
    dialects: &[DIALECT],
    definition: fields::DEFINITION,
};

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    name: "bdap",
    version: "v1",
    fields: &[fields::FIELDS],
    launcher_role: "launcher",
    suspend_field: None,
    set_command: |job, words| command::set_in_template(job, "/spec/launcherTemplate", words),
    // Its launcher's restartPolicy is part of the template, and Always by default: the job goes on
    // until it is deleted.
    set_no_retries: |_| Vec::new(),
    fixed_transport: Some(planner::site::EXEC),
    // It has no field that would hand a job to another controller.
    managed_elsewhere: |_| false,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};
