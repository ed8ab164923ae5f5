//! How one pass over one job can fail: a variant per step. A job that waits, is blocked or was
//! refused is no error.

use thiserror::Error;

use crate::api_error::{ApiError, Retry};

/// A pass that could not be finished.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// What exists could not be learned.
    #[error("looking at {what} of job {job}")]
    Observe {
        job: String,
        what: String,
        #[source]
        source: ApiError,
    },
    /// A change could not be made.
    #[error("{what} for job {job}")]
    Apply {
        job: String,
        what: String,
        #[source]
        source: ApiError,
    },
    /// The status could not be written.
    #[error("writing the status of job {job}")]
    Report {
        job: String,
        #[source]
        source: ApiError,
    },
    /// The plan breaks a law: a mistake of ours, so nothing was done.
    #[error("the plan for job {job} was not carried out, because it breaks a law: {law}")]
    InvariantViolated { job: String, law: String },
    /// A pass panicked: a mistake of ours that must not stop the other jobs.
    #[error("the pass over job {job} panicked: {message}")]
    Panicked { job: String, message: String },
}

impl Error {
    /// What to do about it.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Report { source, .. } => source.retry(),
            // What was to be changed may be out of sight, or unchanged: no event is certain.
            Self::Observe { source, .. } | Self::Apply { source, .. } => match source.retry() {
                Retry::OnChange | Retry::Backoff => Retry::Backoff,
                Retry::Soon => Retry::Soon,
            },
            Self::InvariantViolated { .. } | Self::Panicked { .. } => Retry::Backoff,
        }
    }

    /// From what a panic left behind.
    pub(crate) fn panicked(job: String, panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let message = text.unwrap_or("without a word").to_owned();
        Self::Panicked { job, message }
    }

    /// The step, as a metric label.
    pub(crate) fn step(&self) -> &'static str {
        match self {
            Self::Observe { .. } => "observe",
            Self::Apply { .. } => "apply",
            Self::Report { .. } => "report",
            Self::InvariantViolated { .. } => "unlawful",
            Self::Panicked { .. } => "panicked",
        }
    }
}

/// The whole chain of causes in one line, for the log.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // kube prints the source within the message.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_line_tells_what_we_did_and_why_it_failed() {
        let error = Error::Apply {
            job: "team-a/ring".to_owned(),
            what: "creating Pod ring-worker-0".to_owned(),
            source: ApiError::TimedOut { secs: 10 },
        };
        assert_eq!(
            error.to_string(),
            "creating Pod ring-worker-0 for job team-a/ring"
        );
        assert_eq!(
            chain(&error),
            "creating Pod ring-worker-0 for job team-a/ring: \
             the API server did not answer within 10 s"
        );
        assert_eq!(error.retry(), Retry::Backoff);
    }

    #[test]
    fn a_conflict_is_waited_out_only_where_an_event_must_follow() {
        let conflict = || ApiError::Answered {
            code: 409,
            reason: "Conflict".to_owned(),
            message: String::new(),
        };
        let (job, what) = ("team-a/ring".to_owned(), "creating Service ring".to_owned());
        let report = Error::Report {
            job: job.clone(),
            source: conflict(),
        };
        assert_eq!(report.retry(), Retry::OnChange);
        let apply = Error::Apply {
            job,
            what,
            source: conflict(),
        };
        assert_eq!(apply.retry(), Retry::Backoff);
    }
}
