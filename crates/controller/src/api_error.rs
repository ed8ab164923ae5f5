//! How one request to the API server can fail, and when to retry it: on the next event, soon, or with
//! back-off. Decides nothing about jobs.

use thiserror::Error;

/// A request that did not succeed.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    /// The API server answered with an error.
    #[error("the API server answered {code} {reason}: {message}")]
    Answered {
        /// HTTP status code.
        code: u16,
        /// The reason, e.g. `AlreadyExists`.
        reason: String,
        /// The message.
        message: String,
    },
    /// The API server did not answer in time. It may have carried the request out.
    #[error("the API server did not answer within {secs} s")]
    TimedOut {
        /// How long we waited.
        secs: u64,
    },
    /// The connection failed. The API server may have carried the request out.
    #[error("the API server could not be reached")]
    Unreachable(#[source] Box<kube::Error>),
    /// Another operator may hold the lease by now, so the request was not sent.
    #[error("the lease was not renewed in time: nothing is written any more")]
    NotLeading,
    /// The answer is not what was asked for.
    #[error("the API server's answer could not be read")]
    Unreadable(#[source] serde_json::Error),
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Our view is old; the watch is about to show the change, unless the answer was wrong.
    OnChange,
    /// The API server is busy.
    Soon,
    /// With growing delays.
    Backoff,
}

impl ApiError {
    /// What to do about it.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            _ if self.is_other_object() => Retry::OnChange,
            Self::Answered {
                code: 429 | 503, ..
            } => Retry::Soon,
            Self::Answered { .. }
            | Self::TimedOut { .. }
            | Self::Unreachable(_)
            | Self::NotLeading
            | Self::Unreadable(_) => Retry::Backoff,
        }
    }

    /// The status code, if there was an answer.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Answered { code, .. } => Some(*code),
            Self::TimedOut { .. }
            | Self::Unreachable(_)
            | Self::NotLeading
            | Self::Unreadable(_) => None,
        }
    }

    /// The create failed because the name is taken. (A 409 may also mean that a quota was being
    /// counted at the same time.)
    pub(crate) fn is_already_exists(&self) -> bool {
        matches!(self, Self::Answered { code: 409, reason, .. } if reason == "AlreadyExists")
    }

    /// The object that we meant does not exist: its name is free, or another object has it. The API
    /// server answers deletes with a wrong UID with 409, patches with 422.
    pub(crate) fn is_other_object(&self) -> bool {
        match self {
            Self::Answered {
                code: 404 | 409, ..
            } => true,
            Self::Answered {
                code: 422, message, ..
            } => message.contains("metadata.uid: Invalid"),
            Self::Answered { .. }
            | Self::TimedOut { .. }
            | Self::Unreachable(_)
            | Self::NotLeading
            | Self::Unreadable(_) => false,
        }
    }

    /// The API server may have carried the request out all the same.
    pub(crate) fn may_have_acted(&self) -> bool {
        let is_unsent = matches!(self, Self::NotLeading);
        !is_unsent && self.code().is_none_or(|code| code >= 500)
    }

    /// The API server refused this request, and would refuse the same request again. A 401 concerns our
    /// credentials, not the request.
    pub(crate) fn is_refusal(&self) -> bool {
        let Some(code) = self.code() else {
            return false;
        };
        (400..500).contains(&code) && !matches!(code, 401 | 408 | 409 | 429)
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let status = *status;
                Self::Answered {
                    code: status.code,
                    reason: status.reason,
                    message: status.message,
                }
            }
            other => Self::Unreachable(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, reason: &str) -> ApiError {
        ApiError::Answered {
            code,
            reason: reason.to_owned(),
            message: String::new(),
        }
    }

    #[test]
    fn each_answer_has_its_cure() {
        for (code, reason, retry, refusal) in [
            (400, "BadRequest", Retry::Backoff, true),
            (401, "Unauthorized", Retry::Backoff, false),
            (403, "Forbidden", Retry::Backoff, true),
            (404, "NotFound", Retry::OnChange, true),
            (409, "AlreadyExists", Retry::OnChange, false),
            (409, "Conflict", Retry::OnChange, false),
            (413, "RequestEntityTooLarge", Retry::Backoff, true),
            (422, "Invalid", Retry::Backoff, true),
            (429, "TooManyRequests", Retry::Soon, false),
            (500, "InternalError", Retry::Backoff, false),
            (503, "ServiceUnavailable", Retry::Soon, false),
            (504, "Timeout", Retry::Backoff, false),
        ] {
            let error = answered(code, reason);
            assert_eq!(error.retry(), retry, "{code}");
            assert_eq!(error.is_refusal(), refusal, "{code}");
        }
        assert_eq!(ApiError::TimedOut { secs: 10 }.retry(), Retry::Backoff);
        assert_eq!(ApiError::NotLeading.retry(), Retry::Backoff);
        assert!(!ApiError::NotLeading.may_have_acted() && !ApiError::NotLeading.is_refusal());
        let other = "x is invalid: metadata.uid: Invalid value: \"u\": field is immutable";
        let other = ApiError::Answered {
            code: 422,
            reason: "Invalid".to_owned(),
            message: other.to_owned(),
        };
        assert_eq!(other.retry(), Retry::OnChange);
        assert!(answered(409, "AlreadyExists").is_already_exists());
        assert!(!answered(409, "Conflict").is_already_exists());
    }
}
