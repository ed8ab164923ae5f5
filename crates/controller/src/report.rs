//! Writes the status of a job, and the events that go with it: at once for conditions and outcomes, at
//! the pace of [`crate::pace`] for all else.

use std::sync::Arc;
use std::time::Duration;

use dialects::{Dialect, Event, Finding, Report, Urgency};
use jiff::Timestamp;
use planner::Recorded;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api_error::ApiError;
use crate::context::Context;
use crate::error::Error;
use crate::events;
use crate::memory::UnansweredWrite;
use crate::merge;
use crate::wire::UserJob;

/// What became of a report.
#[derive(Debug)]
pub(crate) enum ReportOutcome {
    /// The stored status is up to date.
    Unchanged,
    /// The status is due after this long.
    Deferred(Duration),
    /// The status was written; this is the job now, and what to tell of it.
    Written(Arc<UserJob>, News),
}

/// Events that are still to be created. The rest of the pass does not wait for them.
#[derive(Debug)]
pub(crate) struct News {
    job: Arc<UserJob>,
    events: Vec<Event>,
    at: Timestamp,
}

impl News {
    /// Creates the events.
    pub(crate) async fn tell(self, context: &Context) {
        let Self { job, events, at } = self;
        events::record(&context.api, &job, &context.resource, &events, at).await;
    }
}

/// Reports one finding about one job.
pub(crate) async fn report(
    context: &Context,
    dialect: &Dialect,
    job: &Arc<UserJob>,
    whole: &Value,
    finding: &Finding<'_>,
    now: Timestamp,
) -> Result<ReportOutcome, Error> {
    let Report {
        status,
        urgency,
        events,
    } = (dialect.report)(whole, finding, now);
    announce_unanswered(context, dialect, job, whole, now).await;
    let wait = wait(context, job, urgency);
    if urgency == Urgency::Unchanged {
        return Ok(ReportOutcome::Unchanged);
    }
    if !wait.is_zero() {
        return Ok(ReportOutcome::Deferred(wait));
    }
    let stored = whole.get("status").unwrap_or(&Value::Null);
    let Some(change) = merge::patch(stored, &status) else {
        return Ok(ReportOutcome::Unchanged);
    };
    if let Some(wait) = context.dropped.all_of(&change) {
        let is_news = remember_keys(context, job, finding);
        let wait = if is_news { Duration::ZERO } else { wait };
        return Ok(ReportOutcome::Deferred(wait));
    }

    let written = match write(context, job, change, urgency).await {
        Ok(written) => written,
        Err(source) => {
            if source.may_have_acted() {
                let (status, events) = (status, events.clone());
                let write = UnansweredWrite::new(job, whole, status, events);
                context
                    .memory
                    .with(job.uid(), |memory| memory.unanswered = Some(write));
            }
            if source.is_other_object() {
                context
                    .memory
                    .with(job.uid(), |memory| memory.outdated = Some(job.version()));
            }
            let unwritable = matches!(source.code(), Some(400 | 413 | 422));
            if unwritable && !source.is_other_object() {
                record_events_only(context, job, &events, now).await;
                // The job was stored before its schema; only its user can fix it.
                if let Finding::Invalid(_) = finding {
                    return Ok(ReportOutcome::Unchanged);
                }
            }
            return Err(Error::Report { source });
        }
    };
    let written_whole = written.whole(&context.resource);
    note_dropped(context, &status, &written_whole["status"]);
    if (dialect.recorded)(&written_whole).keys.is_none() {
        remember_keys(context, job, finding);
    }
    let states = [whole, &written_whole];
    announce(context, dialect, job.uid(), states, &events);
    let news = News {
        job: Arc::clone(&written),
        events,
        at: now,
    };
    Ok(ReportOutcome::Written(written, news))
}

/// Remembers which Secret is the job's where the CRD drops that from the status. True if that is news. A
/// name that is ours to choose is not enough to remember: another operator could not find it again.
fn remember_keys(context: &Context, job: &UserJob, finding: &Finding<'_>) -> bool {
    let Finding::Planned(planned) = finding else {
        return false;
    };
    let keys = planned.keys.clone().filter(|keys| keys.workers.is_none());
    context.memory.with(job.uid(), |memory| {
        let is_news = keys.is_some() && memory.unstored_keys != keys;
        memory.unstored_keys = keys;
        is_news
    })
}

/// Counts and logs what a write changed, from the job before to the job after it.
fn announce(
    context: &Context,
    dialect: &Dialect,
    uid: &str,
    [before, after]: [&Value; 2],
    events: &[Event],
) {
    let [earlier, now] = [before, after].map(|job| (dialect.recorded)(job));
    count(context, dialect, uid, &earlier, &now);
    for event in events {
        tracing::info!(reason = event.reason, "{}", event.message);
    }
}

/// The API server may carry out a write whose answer is lost. Then the stored status is as it should be,
/// and nothing else would ever tell of it.
async fn announce_unanswered(
    context: &Context,
    dialect: &Dialect,
    job: &UserJob,
    whole: &Value,
    now: Timestamp,
) {
    let newer = |write: &mut UnansweredWrite| job.version() > write.version;
    let write = context
        .memory
        .with(job.uid(), |memory| memory.unanswered.take_if(newer));
    let stored = whole.get("status").unwrap_or(&Value::Null);
    let is_stored = |status: &Value| {
        let change = merge::patch(stored, status);
        change.is_none_or(|change| context.dropped.all_of(&change).is_some())
    };
    if let Some(write) = write.filter(|write| is_stored(&write.status)) {
        let states = [&write.before, whole];
        announce(context, dialect, job.uid(), states, &write.events);
        events::record(&context.api, job, &context.resource, &write.events, now).await;
    }
}

/// Learns what the API server did not store of a status, and says so once.
fn note_dropped(context: &Context, status: &Value, stored: &Value) {
    let new = context.dropped.learn(status, stored);
    if !new.is_empty() {
        let fields: Vec<String> = new.iter().map(|key| format!("status.{key}")).collect();
        tracing::error!(
            fields = fields.join(", "),
            "the CustomResourceDefinition {}.{} drops fields that muster writes: it is not muster's, or \
             of another version. Install the one that came with this operator: \
             kubectl apply --server-side -k deploy/crds",
            context.resource.plural,
            context.resource.group
        );
    }
}

/// The API server validates the whole object, and the stored spec of this job is invalid: it rejects
/// every status. The user sees events instead, once per generation.
async fn record_events_only(context: &Context, job: &UserJob, events: &[Event], now: Timestamp) {
    let generation = job.metadata.generation;
    let told = context.memory.with(job.uid(), |memory| {
        std::mem::replace(&mut memory.status_rejected_generation, generation) == generation
    });
    if !told {
        tracing::warn!("the API server rejects every status of this job");
        events::record(&context.api, job, &context.resource, events, now).await;
    }
}

/// Writes to the version that was read, or not at all: a status must not describe an older spec than
/// the one it is stored with.
async fn write(
    context: &Context,
    job: &UserJob,
    status: Value,
    urgency: Urgency,
) -> Result<Arc<UserJob>, ApiError> {
    let patch = json!({
        "metadata": {
            "uid": job.metadata.uid,
            "resourceVersion": job.metadata.resource_version,
        },
        "status": status,
    });
    let target = context.target(job);
    let text = context.api.merge(target, Some("status"), &patch).await?;
    let written = UserJob::read(&text)?;
    context.memory.with(job.uid(), |memory| {
        memory.unanswered = None;
        memory.written = Some(written.remembered());
        memory.written_at = Some(Instant::now());
        memory.restraint.wrote();
        memory.pace.written(urgency);
    });
    Ok(written)
}

fn wait(context: &Context, job: &UserJob, urgency: Urgency) -> Duration {
    let changed_at = context.memory.last_change(&job.key());
    let generation = job.metadata.generation;
    context.memory.with(job.uid(), |memory| {
        memory.pace.wait(urgency, generation, changed_at)
    })
}

/// Counts each job once, with the write that records it.
fn count(context: &Context, dialect: &Dialect, uid: &str, before: &Recorded, after: &Recorded) {
    let jobs = &context.metrics.jobs;
    if !before.seen && after.seen {
        jobs.created.inc();
    }
    if before.outcome.is_none()
        && let Some(outcome) = &after.outcome
    {
        let ending = context.memory.with(uid, |memory| memory.ending.take());
        jobs.count_end(dialect.name, &outcome.verdict, ending);
    }
}
