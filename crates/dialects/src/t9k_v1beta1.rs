//! `batch.tensorstack.dev/v1beta1` `MPIJob`, as the T9k platform serves it, in the three shapes that
//! its manuals have had. This file is the dialect's row and the names that its parts share.

mod defaults;
mod fields;
mod lower;
mod report;
mod types;

use serde_json::Value;

use crate::{Dialect, Resource, command, muster_fields};

/// Kind.
pub const KIND: &str = "MPIJob";
const API_VERSION: &str = "batch.tensorstack.dev/v1beta1";

/// The resource.
pub const RESOURCE: Resource = Resource {
    group: "batch.tensorstack.dev",
    version: DIALECT.version,
    kind: KIND,
    plural: "mpijobs",
    is_required: false,
    also_makes: &[],
    dialects: &[DIALECT],
    definition: fields::DEFINITION,
};

/// The row of this dialect.
pub const DIALECT: Dialect = Dialect {
    name: "t9k",
    version: "v1beta1",
    fields: &[fields::FIELDS, muster_fields::FIELDS],
    launcher_role: "launcher",
    suspend_field: Some("spec.runMode.pause.enabled"),
    set_command,
    // A launcher is retried only where the job asks for it.
    set_no_retries: |_| Vec::new(),
    fixed_transport: None,
    // The platform has no field that would hand a job to another controller.
    managed_elsewhere: |_| false,
    lower: lower::lower,
    recorded: report::recorded,
    report: report::report,
};

/// What mpirun starts. Only a launcher with a command of its own has no mpirun in front of it.
fn set_command(job: &mut Value, words: &[String]) -> bool {
    let replicas = job.pointer("/spec/replicaSpecs").and_then(Value::as_array);
    let launcher = replicas.into_iter().flatten().position(|replica| {
        let command = replica.pointer("/template/spec/containers/0/command");
        replica["type"] == lower::LAUNCHER && command.is_some_and(Value::is_array)
    });
    if let Some(index) = launcher {
        let template = format!("/spec/replicaSpecs/{index}/template");
        return command::set_in_template(job, &template, words);
    }
    command::set_list(job, "/spec/worker", "cmd", words)
        || command::set_list(job, "/spec/mpiConfig", "script", words)
}
