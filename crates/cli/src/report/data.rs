//! A report as data: the answer of `muster report -o json`, and what the page shows. Decides which fields there
//! are and which of many events are kept; docs/reference/report.md explains the fields. Fields are only ever
//! added. Must not know a cluster, nor how a page looks.

use contract::agent_report::AgentReport;
use contract::reason::{Fault, Reason};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::tail::LogTail;
use super::{Facts, jobs_text, ranks, redact};
use crate::manifest::typed_name;
use crate::timeline::{self, Timeline};
use crate::view::{JobView, PodView, launcher};
use crate::{backend, verdict};

/// More events than this are not shown; the oldest go.
const EVENTS_MAX: usize = 500;
/// Characters of a message that are shown.
const MESSAGE_CHARS_MAX: usize = 1_024;

/// What happened to a job.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) schema: &'static str,
    pub(crate) made_at: Timestamp,
    pub(crate) job: Identity,
    pub(crate) verdict: Verdict,
    pub(crate) milestones: Vec<Milestone>,
    pub(crate) slowest: Vec<Slow>,
    pub(crate) attempts: Vec<Attempt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeline: Option<Timeline>,
    pub(crate) hosts: Vec<ranks::Host>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) census: Option<Census>,
    pub(crate) events: Vec<ShownEvent>,
    pub(crate) logs: Vec<LogTail>,
    pub(crate) written: String,
    pub(crate) rendered: String,
    pub(crate) missing: Vec<String>,
}

/// Which job.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource: String,
    pub(crate) dialect: String,
    pub(crate) created: String,
    pub(crate) ready: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ranks: Option<u64>,
}

/// What became of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict {
    pub(crate) phase: String,
    pub(crate) finished: bool,
    pub(crate) reason: String,
    pub(crate) sentence: String,
    pub(crate) message: String,
    pub(crate) advice: String,
    pub(crate) command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program_exit_code: Option<i64>,
    pub(crate) started: String,
    pub(crate) ended: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
}

/// A moment in the life of the job.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Milestone {
    pub(crate) name: &'static str,
    pub(crate) time: Timestamp,
    pub(crate) seconds: i64,
}

/// A worker that others waited for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Slow {
    pub(crate) worker: String,
    pub(crate) node: String,
    pub(crate) phase: String,
    pub(crate) seconds: i64,
}

/// A run of the program.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    pub(crate) number: u64,
    pub(crate) started: String,
    pub(crate) ended: String,
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u64>,
}

/// What the agent counted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Census {
    pub(crate) verdict: &'static str,
    pub(crate) hosts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<usize>,
    pub(crate) ranks: u64,
    pub(crate) lost: Vec<String>,
    pub(crate) attempts: u32,
    pub(crate) message: String,
}

/// An event about the job or one of its pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownEvent {
    pub(crate) time: String,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) object: String,
    pub(crate) message: String,
    pub(crate) count: i64,
}

/// The phase of a job that the operator has not seen yet.
const SUBMITTED: &str = "Submitted";

impl Report {
    pub(super) fn of(facts: &Facts, now: Timestamp) -> Self {
        let job = JobView(&facts.job);
        let pods = &facts.pods;
        let census = launcher(pods).and_then(PodView::agent_report);
        let (written, rendered) = jobs_text::of(&facts.job);
        Self {
            schema: "muster/v1",
            made_at: now,
            job: identity(job),
            verdict: verdict_of(facts, now),
            milestones: milestones(job),
            slowest: slowest(job),
            attempts: attempts(job, census.as_ref()),
            timeline: Timeline::of(job, pods, &facts.events, now),
            hosts: ranks::hosts(&facts.job, pods, census.as_ref()),
            census: census.as_ref().map(shown_census),
            events: events(&facts.events),
            logs: facts.logs.clone(),
            written,
            rendered,
            missing: facts.missing.clone(),
        }
    }
}

fn identity(job: JobView<'_>) -> Identity {
    Identity {
        name: job.name().to_owned(),
        namespace: job.namespace().to_owned(),
        uid: job.uid().to_owned(),
        resource: typed_name(job.0),
        dialect: job.dialect(),
        created: job.created().to_owned(),
        ready: job.word("ready").to_owned(),
        ranks: job.ranks(),
    }
}

fn verdict_of(facts: &Facts, now: Timestamp) -> Verdict {
    let job = JobView(&facts.job);
    let reason = Reason::from_text(job.word("reason"));
    let is_wrong = job.phase() == "Failed" || reason.and_then(Reason::fault).is_some();
    let (advice, command) = match is_wrong {
        true => verdict::advice(job.word("reason"), &facts.address),
        false => ("", format!("muster why {}", facts.address)),
    };
    let finished = job.is_finished();
    let end = launcher(&facts.pods).and_then(PodView::ended);
    let ended = timeline::ended(job).map(|time| time.to_string());
    Verdict {
        phase: match job.phase() {
            "" => SUBMITTED,
            phase => phase,
        }
        .to_owned(),
        finished,
        reason: job.word("reason").to_owned(),
        sentence: cut(&verdict::sentence(job, &facts.pods, now)),
        message: cut(job.word("message")),
        advice: advice.to_owned(),
        command,
        fault: reason.and_then(Reason::fault).map(Fault::as_str),
        retryable: reason.map(Reason::is_retryable),
        exit_code: finished.then(|| verdict::exit_code(job, &facts.pods)),
        program_exit_code: end.map(|end| end.code),
        started: job.time("startTime").to_owned(),
        ended: ended.unwrap_or_default(),
        seconds: job.seconds(),
    }
}

fn milestones(job: JobView<'_>) -> Vec<Milestone> {
    let created = timeline::time(job.created());
    let times = contract::milestone::Milestone::ALL
        .into_iter()
        .filter_map(|which| {
            let time = timeline::milestone(job, which)?;
            let since = created.unwrap_or(time);
            let seconds = time.as_second() - since.as_second();
            Some(Milestone {
                name: which.as_str(),
                time,
                seconds,
            })
        });
    times.collect()
}

fn slowest(job: JobView<'_>) -> Vec<Slow> {
    let slowest = job.0["status"]["muster"]["slowest"].as_array();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or("").to_owned();
    let of = |one: &Value| {
        Some(Slow {
            worker: text(one, "worker"),
            node: text(one, "node"),
            phase: text(one, "phase"),
            seconds: one["seconds"].as_i64()?,
        })
    };
    slowest.into_iter().flatten().filter_map(of).collect()
}

/// As the status has them; else as the agent does, which knows no times.
fn attempts(job: JobView<'_>, census: Option<&AgentReport>) -> Vec<Attempt> {
    let stored = job.0["status"]["muster"]["attempts"].as_array();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or("").to_owned();
    let of = |one: &Value| {
        let (started, ended) = (text(one, "startedAt"), text(one, "endedAt"));
        let seconds = timeline::time(&started)
            .zip(timeline::time(&ended))
            .and_then(|(from, to)| u64::try_from(to.as_second() - from.as_second()).ok());
        Some(Attempt {
            number: one["number"].as_u64()?,
            started,
            ended,
            reason: text(one, "reason"),
            seconds,
        })
    };
    let stored: Vec<Attempt> = stored.into_iter().flatten().filter_map(of).collect();
    if !stored.is_empty() {
        return stored;
    }
    let earlier = census.into_iter().flat_map(|census| &census.earlier);
    let earlier = earlier.map(|attempt| Attempt {
        number: attempt.number.into(),
        started: String::new(),
        ended: String::new(),
        reason: attempt.reason.as_str().to_owned(),
        seconds: Some(attempt.seconds),
    });
    earlier.collect()
}

fn shown_census(report: &AgentReport) -> Census {
    Census {
        verdict: report.verdict.as_str(),
        hosts: report.hosts,
        asked: report.asked,
        ranks: report
            .ranks_per_host
            .values()
            .map(|count| u64::from(*count))
            .sum(),
        lost: report.lost.clone(),
        attempts: report.attempts,
        message: cut(&report.message),
    }
}

fn events(events: &[Value]) -> Vec<ShownEvent> {
    let skipped = events.len().saturating_sub(EVENTS_MAX);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let shown = events.iter().skip(skipped).map(|event| {
        let about = &event["involvedObject"];
        ShownEvent {
            time: backend::event_time(event).to_owned(),
            warning: event["type"] == "Warning",
            reason: text(&event["reason"]),
            object: format!(
                "{}/{}",
                text(&about["kind"]).to_lowercase(),
                text(&about["name"])
            ),
            message: cut(event["message"].as_str().unwrap_or("")),
            count: event["count"].as_i64().unwrap_or(1),
        }
    });
    shown.collect()
}

/// A message without what is secret, cut where nobody reads on.
fn cut(text: &str) -> String {
    let text = redact::text_shown(text);
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests;
