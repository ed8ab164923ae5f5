//! What must hold of a job of any shape, as its dialect reads it, the planner plans it and the dialect reports it.

use dialects::{Dialect, FieldError, Finding, RESOURCES, Resource};
use jiff::Timestamp;
use planner::observed::Observed;
use planner::site::Site;
use serde_json::Value;

use crate::edits;

/// Jobs that are accepted, one of each dialect.
const BASES: [(&str, &str); 5] = [
    ("v2beta1", include_str!("../bases/v2beta1.json")),
    ("v1", include_str!("../bases/v1.json")),
    ("t9k", include_str!("../bases/t9k.json")),
    ("bdap", include_str!("../bases/bdap.json")),
    ("openmpi", include_str!("../bases/openmpi.json")),
];

/// An event's message is no longer in Kubernetes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// A dialect with its resource.
pub fn named(name: &str) -> Option<(&'static Resource, &'static Dialect)> {
    let rows = RESOURCES.iter().flat_map(|resource| {
        let dialects = resource.dialects.iter();
        dialects.map(move |dialect| (resource, dialect))
    });
    let mut rows = rows.filter(|(_, dialect)| dialect.name == name);
    rows.next()
}

/// A job of this dialect that is accepted.
pub fn base(name: &str) -> Option<Value> {
    let (_, text) = BASES.iter().find(|(known, _)| *known == name)?;
    Some(serde_json::from_str(text).expect("it is JSON"))
}

/// Edits of an accepted job, or a whole job.
pub fn check(name: &str, bytes: &[u8]) {
    let (_, dialect) = named(name).expect("the target names a dialect");
    let base = base(name).expect("every dialect has one");
    if let Some(job) = edits::applied(&base, bytes) {
        exercise(dialect, &job);
    }
}

/// The functions of a dialect on a stored job, as the operator calls them. Returns the status that it writes.
pub(crate) fn exercise(dialect: &Dialect, job: &Value) -> Value {
    let now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365 * 56);
    (dialect.managed_elsewhere)(job);
    let lowered = (dialect.lower)(job);
    assert_eq!(
        lowered,
        (dialect.lower)(job),
        "the same job means something else"
    );
    match lowered {
        Err(errors) => {
            assert_named(&errors);
            reported(dialect, job, &Finding::Invalid(&errors), now)
        }
        Ok(lowered) => {
            let mut observed = Observed::alone(lowered, Site::default(), now);
            observed.nonce = "n0nce".to_owned();
            observed.recorded = (dialect.recorded)(job);
            let plan = planner::plan(&observed);
            assert_eq!(planner::check::violations(&observed, &plan), [""; 0]);
            assert_eq!(plan, planner::plan(&observed), "planning twice differs");
            reported(dialect, job, &Finding::Planned(&plan.status), now)
        }
    }
}

/// Every refusal names a field.
pub(crate) fn assert_named(errors: &[FieldError]) {
    assert!(!errors.is_empty(), "a refusal without a reason");
    for error in errors {
        let named = error.path.starts_with("spec") || error.path.starts_with("metadata");
        assert!(
            named && !error.problem.is_empty(),
            "no field is named: {error}"
        );
    }
}

/// Once it is written, there is nothing more to write or to announce.
fn reported(dialect: &Dialect, job: &Value, finding: &Finding<'_>, now: Timestamp) -> Value {
    let report = (dialect.report)(job, finding, now);
    assert!(report.status.is_object());
    for event in &report.events {
        assert!(event.message.len() <= MESSAGE_BYTES_MAX && !event.reason.is_empty());
    }
    if job.is_object() {
        let mut written = job.clone();
        written["status"] = report.status.clone();
        let second = (dialect.report)(&written, finding, now);
        assert_eq!(
            second.status, report.status,
            "a status that is never at rest"
        );
        assert_eq!(second.urgency, dialects::Urgency::Unchanged);
        assert_eq!(second.events, [], "it is announced twice");
    }
    report.status
}
