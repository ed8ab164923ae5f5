//! How one pass over one job can fail: a variant per step. A job that waits, is blocked or was
//! refused an object is not an error. Whoever logs an error names the job.

use planner::Kind;
use thiserror::Error;

use crate::api_error::{ApiError, Retry};

/// A pass that could not be finished.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The API server could not be asked what exists.
    #[error("reading {what}")]
    Observe {
        what: String,
        #[source]
        source: ApiError,
    },
    /// A write failed.
    #[error("{what}")]
    Apply {
        what: String,
        #[source]
        source: ApiError,
    },
    /// The status write failed.
    #[error("writing the status")]
    Report {
        #[source]
        source: ApiError,
    },
    /// The plan violates an invariant. This is a bug in the planner; nothing was applied.
    #[error("plan rejected: invariant violated: {law}")]
    InvariantViolated { law: String },
    /// The pass panicked. This is a bug, and must not stop other jobs.
    #[error("the reconcile panicked: {message}")]
    Panicked { message: String },
}

impl Error {
    /// Whether an object exists could not be learnt.
    pub(crate) fn observing(kind: &Kind, name: &str, source: ApiError) -> Self {
        Self::Observe {
            what: format!("{} {name}", kind.as_str()),
            source,
        }
    }

    /// What to do about it.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Report { source, .. } => source.retry(),
            // No watch event is certain to follow, so waiting for one could take forever.
            Self::Observe { source, .. } | Self::Apply { source, .. } => match source.retry() {
                Retry::OnChange | Retry::Backoff => Retry::Backoff,
                Retry::Soon => Retry::Soon,
            },
            Self::InvariantViolated { .. } | Self::Panicked { .. } => Retry::Backoff,
        }
    }

    /// From the payload of a panic.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let message = text.unwrap_or("no message").to_owned();
        Self::Panicked { message }
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
    fn the_log_line_names_the_action_and_the_cause() {
        let error = Error::Apply {
            what: "creating Pod ring-worker-0".to_owned(),
            source: ApiError::TimedOut { secs: 10 },
        };
        let line = "creating Pod ring-worker-0: the API server did not answer within 10 s";
        assert_eq!(chain(&error), line);
        assert_eq!(error.retry(), Retry::Backoff);
    }

    #[test]
    fn a_conflict_is_waited_out_only_where_an_event_must_follow() {
        let conflict = || ApiError::Answered {
            code: 409,
            reason: "Conflict".to_owned(),
            message: String::new(),
        };
        let report = Error::Report { source: conflict() };
        assert_eq!(report.retry(), Retry::OnChange);
        let (what, source) = ("creating Service ring".to_owned(), conflict());
        assert_eq!(Error::Apply { what, source }.retry(), Retry::Backoff);
    }
}
