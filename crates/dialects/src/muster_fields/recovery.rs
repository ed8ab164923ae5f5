//! `spec.muster.recovery`: reads and checks it, and refuses it by name on a job whose program muster cannot
//! start again. Must not know how the agent does that.

use planner::Reason;
use planner::job::{Access, Job, PlannedStop, RESTARTABLE, Recovery, StopSignal, Workers};
use serde_json::Value;

use super::within;
use crate::FieldError;
use crate::field::{FieldType, Shape, TEXT};
use crate::reader::{Place, Reader};

const PATH: &str = "spec.muster.recovery";

/// The words of `on`.
const WORDS: [&str; RESTARTABLE.len()] = {
    let mut words = [""; RESTARTABLE.len()];
    let mut index = 0;
    while index < RESTARTABLE.len() {
        words[index] = RESTARTABLE[index].as_str();
        index += 1;
    }
    words
};
const WORD: Shape = TEXT.one_of(&WORDS);
/// The words of `signal`.
pub(super) const SIGNALS: [&str; StopSignal::ALL.len()] = {
    let mut words = [""; StopSignal::ALL.len()];
    let mut index = 0;
    while index < StopSignal::ALL.len() {
        words[index] = StopSignal::ALL[index].name;
        index += 1;
    }
    words
};
/// A node does not wait for longer in practice.
pub(super) const GRACE_MAX_SECS: i64 = 3600;
/// A program that fails at once must not look like a good one.
pub(super) const RESET_MIN_SECS: i64 = 60;
/// The shape of `reasons`.
pub(super) const REASONS: Shape = Shape::of(FieldType::List(Some(&WORD)));

/// `spec.muster.recovery`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryFields {
    /// `restarts`: how often.
    pub restarts: Option<i64>,
    /// `reasons`: for which of them; for all where it is empty.
    pub reasons: Vec<String>,
    /// `resetAfterSeconds`: after which time all restarts are left again.
    pub reset_after_seconds: Option<i64>,
    /// `signal`: how ranks are told that a pod has to leave its node.
    pub signal: Option<String>,
    /// `graceSeconds`: how long they have to end then.
    pub grace_seconds: Option<i64>,
}

impl RecoveryFields {
    /// The same, for the hub.
    pub(super) fn recovery(&self) -> Recovery {
        let is_named = |reason: &Reason| self.reasons.iter().any(|word| word == reason.as_str());
        let is_on = |reason: &Reason| self.reasons.is_empty() || is_named(reason);
        Recovery {
            restarts: within(self.restarts).unwrap_or_default(),
            on: RESTARTABLE.into_iter().filter(is_on).collect(),
            reset_secs: within(self.reset_after_seconds),
            stop: self.stop(),
        }
    }
}

impl RecoveryFields {
    fn stop(&self) -> PlannedStop {
        let named = |signal: &StopSignal| Some(signal.name) == self.signal.as_deref();
        let signal = StopSignal::ALL.into_iter().find(named);
        PlannedStop {
            signal: signal.unwrap_or(PlannedStop::USUAL.signal),
            grace_secs: within(self.grace_seconds).unwrap_or(PlannedStop::USUAL.grace_secs),
        }
    }
}

pub(super) fn read(reader: &mut Reader, muster: &Place<'_>) -> Option<RecoveryFields> {
    let place = reader.group(muster, "recovery");
    place.value().filter(|value| value.is_object())?;
    let reasons = reader.list_of(&place.field("reasons"), "a string", Value::is_string);
    let reasons = reasons.into_iter().flatten().filter_map(Value::as_str);
    Some(RecoveryFields {
        restarts: reader.int32(&place.field("restarts")),
        reasons: reasons.map(str::to_owned).collect(),
        reset_after_seconds: reader.integer(&place.field("resetAfterSeconds"), i64::MAX),
        signal: reader.optional_string(&place.field("signal")),
        grace_seconds: reader.int32(&place.field("graceSeconds")),
    })
}

pub(super) fn check(recovery: &RecoveryFields, errors: &mut Vec<FieldError>) {
    let restarts = format!("{PATH}.restarts");
    match recovery.restarts {
        None => {
            let detail = "must say how often the program may be started again";
            errors.push(FieldError::required(&restarts, detail));
        }
        Some(count) if count < 0 => {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&restarts, &count.into(), detail));
        }
        Some(_) => {}
    }
    for (index, word) in recovery.reasons.iter().enumerate() {
        if !WORDS.contains(&word.as_str()) {
            let path = format!("{PATH}.reasons[{index}]");
            errors.push(FieldError::unsupported(&path, word, &WORDS));
        }
    }
    if let Some(word) = recovery.signal.as_deref()
        && !SIGNALS.contains(&word)
    {
        let path = format!("{PATH}.signal");
        errors.push(FieldError::unsupported(&path, word, &SIGNALS));
    }
    if let Some(secs) = recovery
        .grace_seconds
        .filter(|secs| !(1..=GRACE_MAX_SECS).contains(secs))
    {
        let detail = "must be between 1 and 3600, inclusive";
        let path = format!("{PATH}.graceSeconds");
        errors.push(FieldError::invalid(&path, &secs.into(), detail));
    }
    if let Some(secs) = recovery
        .reset_after_seconds
        .filter(|secs| *secs < RESET_MIN_SECS)
    {
        let detail = "must be greater than or equal to 60";
        let path = format!("{PATH}.resetAfterSeconds");
        errors.push(FieldError::invalid(&path, &secs.into(), detail));
    }
}

/// The job, if muster can do what it asks for: only its agent can start a program again, and only a
/// program that the agent has started.
pub(crate) fn check_job(job: Job) -> Result<Job, Vec<FieldError>> {
    let Some(Recovery { restarts, .. }) = job.recovery else {
        return Ok(job);
    };
    let mut details = Vec::new();
    if !is_by_agent(&job) {
        details.push(
            "needs spec.muster.transport: Agent, because muster's agent starts the program again",
        );
    }
    if !has_command(&job) {
        details.push(
            "needs a command in the launcher's template: muster's agent cannot start the entry point of \
             the image again",
        );
    }
    let path = format!("{PATH}.restarts");
    let error = |detail| FieldError::invalid(&path, &restarts.into(), detail);
    match details.is_empty() {
        true => Ok(job),
        false => Err(details.into_iter().map(error).collect()),
    }
}

/// Also at sites where another transport is usual.
fn is_by_agent(job: &Job) -> bool {
    let Workers::Pods(pods) = &job.workers else {
        return false;
    };
    matches!(pods.access, Access::Agent(..))
}

fn has_command(job: &Job) -> bool {
    let role = &job.launcher.role;
    let containers = role.template.pointer("/spec/containers");
    let mut containers = containers.and_then(Value::as_array).into_iter().flatten();
    let command = containers
        .next()
        .and_then(|container| container.get("command"));
    let words = command.and_then(Value::as_array);
    words.is_some_and(|words| words.iter().any(Value::is_string))
}
