//! What happened to a job, as data and as a page that needs nothing else. Decides what belongs to a report and
//! what to do where a part of it may not be read or is gone: the report is made of the rest, and says so.

pub(crate) mod data;
pub(crate) mod html;
mod jobs_text;
pub(crate) mod page;
mod ranks;
pub(crate) mod redact;
mod sections;
pub(crate) mod tail;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;

use crate::backend::Backend;
use crate::view::JobView;
use data::Report;
pub(crate) use sections::mark;
use tail::LogTail;

/// Everything that a report is made of.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) job: Value,
    pub(crate) pods: Vec<Value>,
    /// Of the job and of its pods, oldest first.
    pub(crate) events: Vec<Value>,
    pub(crate) logs: Vec<LogTail>,
    /// Sentences about what could not be read.
    pub(crate) missing: Vec<String>,
    /// What to write after a command of muster, so that it finds this job.
    pub(crate) address: String,
}

impl Facts {
    /// Of the job of this name.
    pub(crate) async fn gather(backend: &Backend, name: &str) -> Result<Self> {
        let job = backend.job(name).await?;
        Ok(Self::of_job(backend, job).await)
    }

    /// Of this job.
    pub(crate) async fn of_job(backend: &Backend, job: Value) -> Self {
        let view = JobView(&job);
        let mut missing = Vec::new();
        let pods = backend.pods(view).await.unwrap_or_else(|error| {
            missing.push(format!("The pods are missing here: {error:#}"));
            Vec::new()
        });
        let events = backend
            .all_events(view, &pods)
            .await
            .unwrap_or_else(|error| {
                missing.push(format!("The events are missing here: {error:#}"));
                Vec::new()
            });
        let (logs, unread) = tail::tails(backend, view, &pods).await;
        missing.extend(
            unread
                .into_iter()
                .map(|why| format!("A log is missing here: {why}")),
        );
        let address = backend.address(view.name());
        Self {
            job,
            pods,
            events,
            logs,
            missing,
            address,
        }
    }

    /// The report, as of now.
    pub(crate) fn report(&self, now: Timestamp) -> Report {
        Report::of(self, now)
    }
}
