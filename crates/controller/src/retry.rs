//! When a failed pass is retried: one table from error to delay. Knows nothing of the pass.

use std::time::Duration;

use crate::api_error::Retry;
use crate::backoff::doubled;
use crate::context::{Context, label};
use crate::error::{Error, chain};
use crate::wire::UserJob;

/// The delay after a 429 or 503, or after a pass that ended with work left.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// The delay after a conflict, unless the watch shows sooner what was changed. A proxy or a webhook can
/// answer 409 although nobody changed the job. Then no event follows.
const UNCHANGED: Duration = Duration::from_secs(10);
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Logs a failed pass and decides when to retry it without an event.
pub(crate) fn error_policy(job: &UserJob, error: &Error, context: &Context) -> Option<Duration> {
    context.metrics.count_error(error.step());
    let failures = context.memory.with(job.uid(), |memory| {
        memory.failures = memory.failures.saturating_add(1);
        memory.failures
    });
    let retry = error.retry();
    let (job, error_line) = (label(job), chain(error));
    match (error, retry) {
        (Error::InvariantViolated { .. } | Error::Panicked { .. }, _) => {
            tracing::error!(
                job,
                error = error_line,
                failures,
                "this is a bug in muster; please report it"
            );
        }
        (_, Retry::OnChange) => tracing::debug!(
            job,
            error = error_line,
            "reconciling again on the next event, or in ten seconds"
        ),
        (_, Retry::Soon | Retry::Backoff) => {
            tracing::warn!(
                job,
                error = error_line,
                failures,
                "reconcile failed; retrying"
            );
        }
    }
    after(retry, failures)
}

/// The whole retry table.
fn after(retry: Retry, failures: u32) -> Option<Duration> {
    match retry {
        Retry::OnChange => Some(UNCHANGED),
        Retry::Soon => Some(SOON),
        Retry::Backoff => {
            let double = |delay, _| Some(doubled(delay, BACKOFF_FIRST, BACKOFF_MAX));
            (0..failures.clamp(1, 16)).fold(None, double)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_retried_with_growing_delays() {
        let millis = |failures| after(Retry::Backoff, failures).map(|delay| delay.as_millis());
        assert_eq!(millis(1), Some(250));
        assert_eq!(millis(2), Some(500));
        assert_eq!(millis(5), Some(4000));
        assert_eq!(millis(9), Some(60_000));
        assert_eq!(millis(u32::MAX), Some(60_000));
        assert_eq!(after(Retry::Soon, 9), Some(SOON));
    }

    #[test]
    fn a_conflict_that_no_change_follows_is_tried_again() {
        assert_eq!(after(Retry::OnChange, 1), Some(UNCHANGED));
    }
}
