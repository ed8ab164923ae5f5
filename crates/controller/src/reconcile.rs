//! One pass over one job: observe → plan → apply → report. Decides in which order, how often,
//! and when to come back; every decision about the job itself is the planner's.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use dialects::{Dialect, Finding};
use futures::FutureExt as _;
use jiff::Timestamp;
use kube::core::ApiResource;
use kube::runtime::controller::Action as Requeue;
use planner::observed::Site;
use planner::{Job, Plan};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Api;
use crate::apply::{self, Progress};
use crate::cache::Cache;
use crate::error::{Error, chain};
use crate::fault::Retry;
use crate::memory::{Memory, doubled};
use crate::metrics::Metrics;
use crate::observe::{self, Look};
use crate::priorities::Priorities;
use crate::report::{Said, report};
use crate::wire::UserJob;

/// Looks in one pass: enough to see one's own work, too few to spin.
const ROUNDS_MAX: usize = 4;
/// When a pass ended with work left.
const SOON: Duration = Duration::from_secs(1);
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// What a pass needs besides the job.
pub(crate) struct Context {
    pub(crate) api: Api,
    pub(crate) dialect: &'static Dialect,
    pub(crate) resource: ApiResource,
    pub(crate) site: Site,
    pub(crate) cache: Arc<Cache>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) priorities: Priorities,
    /// How far the watch may lag behind our own writes before we ask the API server.
    pub(crate) patience: Duration,
}

/// One pass over one job.
pub(crate) async fn reconcile(
    stored: Arc<UserJob>,
    context: Arc<Context>,
) -> Result<Requeue, Error> {
    context.cache.listed().await; // client: watches
    context.memory.begin(stored.uid());
    let start = Instant::now();
    // One job that we do not understand must not stop the others.
    let result = AssertUnwindSafe(pass(&context, Arc::clone(&stored)))
        .catch_unwind()
        .await;
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let message = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("?");
        Err(Error::Panicked {
            job: label(&stored),
            message: message.to_owned(),
        })
    });
    context
        .metrics
        .reconcile_seconds
        .observe(start.elapsed().as_secs_f64());
    if result.is_ok() {
        context
            .memory
            .on(stored.uid(), |memory| memory.failures = 0);
    }
    Ok(result?.map_or_else(Requeue::await_change, Requeue::requeue))
}

/// Returns when to come back though nothing may have changed.
async fn pass(context: &Context, stored: Arc<UserJob>) -> Result<Option<Duration>, Error> {
    if stored.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let mut job = observe::newest(context, stored).await?; // no client, unless the watch hangs
    // Once, and once more after a status was written: the outcome must be on record before
    // anything is cleaned up.
    for _ in 0..2 {
        let whole = job.whole(&context.resource); // no client
        if (context.dialect.managed_elsewhere)(&whole) {
            return Ok(None);
        }
        let (said, come_back) = match (context.dialect.lower)(&whole) {
            Err(errors) => {
                let finding = Finding::Invalid(&errors);
                (
                    report(context, &job, &whole, &finding, Timestamp::now()).await?,
                    None,
                ) // client
            }
            Ok(wanted) => {
                let Settled {
                    plan,
                    now,
                    come_back,
                } = settle(context, &wanted, &whole).await?; // client
                let finding = Finding::Planned(&plan.status);
                (
                    report(context, &job, &whole, &finding, now).await?,
                    come_back,
                ) // client
            }
        };
        match said {
            Said::Written(newer) => job = newer,
            Said::Later(wait) => return Ok(Some(come_back.map_or(wait, |at| at.min(wait)))),
            Said::Nothing => return Ok(come_back),
        }
    }
    Ok(Some(SOON))
}

/// Where a job stands once there is nothing more to do for now.
struct Settled {
    plan: Plan,
    now: Timestamp,
    come_back: Option<Duration>,
}

/// Observes, plans and applies until there is nothing left to do, or no progress.
async fn settle(context: &Context, job: &Job, whole: &Value) -> Result<Settled, Error> {
    for round in 1.. {
        let recorded = (context.dialect.recorded)(whole); // no client
        let Look {
            observed,
            look_again,
        } = observe::look(context, job, recorded).await?; // no client, except for the key
        if observed.launcher.ours().is_some() {
            context
                .metrics
                .show_launcher(&job.owner.namespace, &job.launcher_name());
        }
        let mut plan = planner::plan(&observed); // no client
        let violations = planner::check::violations(&observed, &plan); // no client
        if !violations.is_empty() {
            let job = format!("{}/{}", job.owner.namespace, job.owner.name);
            return Err(Error::Unlawful {
                job,
                law: violations.join("; "),
            });
        }
        let steps = std::mem::take(&mut plan.steps);
        let idle = steps.is_empty();
        if !idle {
            tracing::debug!(job = job.owner.name, phase = plan.status.phase.as_str(), ?plan.because);
        }
        let progress = match idle {
            true => Progress::Done,
            false => apply::apply(context, &job.owner, steps).await?, // client
        };
        if idle || round >= ROUNDS_MAX {
            let wake = plan.wake.into_iter().chain(look_again).min();
            let wake = wake.map(|at| until(at, observed.now));
            let unfinished = (!idle || progress == Progress::Stopped).then_some(SOON);
            let come_back = wake.into_iter().chain(unfinished).min();
            return Ok(Settled {
                plan,
                now: observed.now,
                come_back,
            });
        }
    }
    unreachable!("the rounds are counted")
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    // A little late rather than a little early: an early look would find that nothing is due.
    Duration::try_from(now.duration_until(at)).unwrap_or(Duration::ZERO) + Duration::from_millis(5)
}

/// What to do after a pass that failed.
pub(crate) fn error_policy(job: Arc<UserJob>, error: &Error, context: Arc<Context>) -> Requeue {
    context.metrics.count_error(error.step());
    let failures = context.memory.on(job.uid(), |memory| {
        memory.failures = memory.failures.saturating_add(1);
        memory.failures
    });
    let retry = error.retry();
    match (error, retry) {
        (Error::Unlawful { .. } | Error::Panicked { .. }, _) => {
            tracing::error!(error = chain(error), failures, "please report this");
        }
        (_, Retry::OnChange) => tracing::debug!(error = chain(error), "looking again on change"),
        (_, Retry::Soon | Retry::Backoff) => {
            tracing::warn!(error = chain(error), failures, "trying again");
        }
    }
    after(retry, failures).map_or_else(Requeue::await_change, Requeue::requeue)
}

/// The whole retry table.
fn after(retry: Retry, failures: u32) -> Option<Duration> {
    match retry {
        Retry::OnChange => None,
        Retry::Soon => Some(SOON),
        Retry::Backoff => {
            let double = |delay, _| Some(doubled(delay, BACKOFF_FIRST, BACKOFF_MAX));
            (0..failures.clamp(1, 16)).fold(None, double)
        }
    }
}

/// The job's name for people.
pub(crate) fn label(job: &UserJob) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}/{}",
        part(&job.metadata.namespace),
        part(&job.metadata.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_retried_less_and_less_often() {
        let millis = |failures| after(Retry::Backoff, failures).map(|delay| delay.as_millis());
        assert_eq!(millis(1), Some(250));
        assert_eq!(millis(2), Some(500));
        assert_eq!(millis(5), Some(4000));
        assert_eq!(millis(9), Some(60_000));
        assert_eq!(millis(u32::MAX), Some(60_000));
        assert_eq!(after(Retry::Soon, 9), Some(SOON));
        assert_eq!(after(Retry::OnChange, 1), None);
    }
}
