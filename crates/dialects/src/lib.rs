//! The APIs that people already write their MPI jobs in. Each is a folder with the same four
//! files: `types` (the wire), `defaults`, `lower` (wire to [`planner::Job`], or every field
//! error) and `report` (planner status to wire status and events).
//!
//! Adding a dialect is one folder and one row of [`DIALECTS`]. No dialect knows another.

mod conditions;
pub mod field_error;
mod fields;
pub mod kubeflow_v2beta1;
mod muster_status;
mod template;
mod time;

pub use field_error::{FieldError, aggregate};

use jiff::Timestamp;
use serde_json::Value;

/// Every dialect that is served.
pub const DIALECTS: &[Dialect] = &[kubeflow_v2beta1::DIALECT];

/// One API that jobs are written in. Objects are passed whole, as the API server stores them:
/// a stored object may have any shape, so nothing here may panic on one.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// API group, e.g. `kubeflow.org`.
    pub group: &'static str,
    /// API version, e.g. `v2beta1`.
    pub version: &'static str,
    /// Kind, e.g. `MPIJob`.
    pub kind: &'static str,
    /// Plural resource name, e.g. `mpijobs`.
    pub plural: &'static str,
    /// Another controller was asked to run this job: do not touch it, do not speak of it.
    pub managed_elsewhere: fn(job: &Value) -> bool,
    /// What was asked for, or everything that is wrong with it.
    pub lower: fn(job: &Value) -> Result<planner::Job, Vec<FieldError>>,
    /// What the job's status says already.
    pub recorded: fn(job: &Value) -> planner::Recorded,
    /// What the job's status should say, and what to announce.
    pub report: fn(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report,
}

/// What there is to report about a job.
#[derive(Clone, Copy, Debug)]
pub enum Finding<'a> {
    /// It could not be lowered.
    Invalid(&'a [FieldError]),
    /// It was planned.
    Planned(&'a planner::Status),
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

/// When a status must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It equals the stored one.
    Unchanged,
    /// Only counters and words of progress differ: may wait until the pods are quiet.
    WhenQuiet,
    /// A condition, an outcome, a time or the observed generation differs.
    Now,
}

/// Something to announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// A person should look.
    pub warning: bool,
    /// A word.
    pub reason: String,
    /// A sentence of at most 1024 bytes.
    pub message: String,
}
