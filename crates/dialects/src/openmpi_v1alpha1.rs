//! `muster.dev/v1alpha1` `OpenMPI`: the parameters of Kubeflow's ksonnet component `openmpi`, name for
//! name, as the `spec` of an object. This file is the dialect's row and the names that its parts share.

mod defaults;
pub mod fields;
mod lower;
mod report;
mod types;

use planner::Kind;

use crate::{Dialect, Resource, command};

/// Kind.
pub const KIND: &str = "OpenMPI";
const API_VERSION: &str = "muster.dev/v1alpha1";

/// The resource.
pub const RESOURCE: Resource = Resource {
    group: "muster.dev",
    version: DIALECT.version,
    kind: KIND,
    plural: "openmpis",
    is_required: false,
    also_makes: &[Kind::ServiceAccount, Kind::Role, Kind::RoleBinding],
    dialects: &[DIALECT],
    definition: fields::DEFINITION,
};

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    name: "openmpi",
    version: "v1alpha1",
    fields: &[fields::FIELDS],
    launcher_role: "launcher",
    suspend_field: None,
    set_command: |job, words| command::set_shell_line(job, "/spec", "exec", words),
    // The component never retries.
    set_no_retries: |_| Vec::new(),
    fixed_transport: Some(planner::site::Transport::Ssh.as_str()),
    // The component had no controller that a job could be handed to.
    managed_elsewhere: |_| false,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};
