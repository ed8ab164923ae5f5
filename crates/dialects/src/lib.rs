//! The APIs that people already write their MPI jobs in. Each is a folder with the same five
//! files: `fields` (what users may write), `types` (the wire), `defaults`, `lower` (wire to
//! [`planner::Job`], or every field error) and `report` (planner status to wire status and events).
//!
//! Adding a dialect is one folder and one line of [`RESOURCES`]. No dialect knows another.

pub mod bdap_v1;
mod command;
mod conditions;
pub mod definition;
pub mod field;
pub mod field_error;
mod kubeflow;
pub mod kubeflow_v1;
pub mod kubeflow_v2beta1;
mod metadata;
mod muster_fields;
mod muster_history;
mod muster_status;
mod names;
pub mod openmpi_v1alpha1;
mod reader;
mod report_urgency;
mod status_draft;
pub mod t9k_v1beta1;
mod template;
mod time;
pub mod worker_slots;

pub use field_error::{FieldError, aggregate};

use jiff::Timestamp;
use serde_json::Value;

/// Every resource that is served, with the dialects that its objects are written in.
pub const RESOURCES: &[Resource] = &[
    kubeflow::resource(&[kubeflow_v2beta1::DIALECT, kubeflow_v1::DIALECT]),
    t9k_v1beta1::RESOURCE,
    bdap_v1::RESOURCE,
    openmpi_v1alpha1::RESOURCE,
];

/// One stored resource. Several API versions of it may be written; the operator reads and writes
/// one.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// API group, e.g. `kubeflow.org`.
    pub group: &'static str,
    /// The version that the operator reads and writes, e.g. `v2beta1`.
    pub version: &'static str,
    /// Kind, e.g. `MPIJob`.
    pub kind: &'static str,
    /// Plural resource name, e.g. `mpijobs`.
    pub plural: &'static str,
    /// A cluster without it is not set up yet; others may be missing.
    pub is_required: bool,
    /// Kinds of children that not every job has: they are watched only where this resource is
    /// served.
    pub also_makes: &'static [planner::Kind],
    /// The dialects of its objects; the first is that of an object which names none.
    pub dialects: &'static [Dialect],
    /// What its custom resource definition holds besides the fields of the dialects.
    pub definition: definition::Definition,
}

impl Resource {
    /// The dialect that a job was written in: the one that was recorded when it was first seen,
    /// otherwise the one that the API server filled in. The record comes first because a client
    /// that writes back a job without fields it does not know has the API server fill them in anew.
    pub fn dialect_of(&self, job: &Value) -> &'static Dialect {
        let written = job.pointer("/spec/muster/dialect").and_then(Value::as_str);
        let names = [muster_status::dialect(job), written.unwrap_or_default()];
        let row = |name: &str| self.dialects.iter().find(|row| row.name == name);
        let named = names.into_iter().find_map(row);
        named.unwrap_or(&self.dialects[0])
    }
}

/// One API that jobs are written in. Objects are passed whole, as the API server stores them:
/// a stored object may have any shape, so nothing here may panic on one.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// As `spec.muster.dialect` and `status.muster.dialect` have it.
    pub name: &'static str,
    /// The API version that it is written in.
    pub version: &'static str,
    /// Every field of its `spec`, outside of pod templates.
    pub fields: &'static [&'static [field::Field]],
    /// Value of the label `training.kubeflow.org/job-role` on the launcher's pod.
    pub launcher_role: &'static str,
    /// The field that suspends a job while it is true; none where jobs cannot be suspended.
    pub suspend_field: Option<&'static str>,
    /// Replaces what the launcher runs. False if the job has no launcher to change.
    pub set_command: fn(job: &mut Value, words: &[String]) -> bool,
    /// Keeps a failed launcher from being retried where the job does not say otherwise; returns
    /// what was set, for people.
    pub set_no_retries: fn(job: &mut Value) -> Vec<&'static str>,
    /// How the launcher reaches the workers, where the dialect leaves jobs no choice.
    pub fixed_transport: Option<&'static str>,
    /// Another controller was asked to run this job: do not touch it, do not speak of it.
    pub managed_elsewhere: fn(job: &Value) -> bool,
    /// What was asked for, or everything that is wrong with it.
    pub lower: fn(job: &Value) -> Result<planner::Job, Vec<FieldError>>,
    /// What the stored status records of the job.
    pub recorded: fn(job: &Value) -> planner::Recorded,
    /// The status to write, and the events to announce.
    pub report: fn(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report,
}

/// Whether a pod with this value of the label `training.kubeflow.org/job-role` is a launcher, in any
/// dialect.
pub fn is_launcher_role(role: &str) -> bool {
    let mut rows = RESOURCES.iter().flat_map(|resource| resource.dialects);
    rows.any(|row| row.launcher_role == role)
}

/// What there is to report about a job.
#[derive(Clone, Copy, Debug)]
pub enum Finding<'a> {
    /// It could not be lowered.
    Invalid(&'a [FieldError]),
    /// It was planned.
    Planned(&'a planner::Status),
    /// The operator cannot see what exists for it. Only the reason and the message of this are known;
    /// everything else that its status says stands.
    Unseen(&'a planner::Status),
}

/// A status to write and events to announce with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The whole `status` as it should be.
    pub status: Value,
    /// Whether and when it must be written.
    pub urgency: Urgency,
    /// One event for each thing that is new since the status as stored; none when nothing is.
    pub events: Vec<Event>,
}

/// When a status must be written; the least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It equals the stored one.
    Unchanged,
    /// Only the observed generation differs, or what follows from an edit of a suspended job: no news,
    /// and the client that edits may be about to edit again without reading the job.
    Edit,
    /// Only counters and progress messages differ: the write may wait a little.
    Progress,
    /// The same, and trouble began or ended: the reason is, or was, another than that of every start.
    Trouble,
    /// A condition, an outcome or a time differs.
    Now,
}

/// Something to announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// A person should look.
    pub warning: bool,
    /// A reason in CamelCase.
    pub reason: String,
    /// A sentence of at most 1024 bytes.
    pub message: String,
}
