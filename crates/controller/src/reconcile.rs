//! One pass over one job: observe → plan → apply → report. Decides in which order, how often,
//! and when to come back; every decision about the job itself is the planner's.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use dialects::{Dialect, Finding};
use futures::FutureExt as _;
use jiff::Timestamp;
use planner::observed::{Observed, Refusal};
use planner::{Action, Job, Kind, Plan, Status};
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::apply::{self, Extent};
use crate::cache::Unlisted;
use crate::context::{Context, label};
use crate::error::Error;
use crate::key_secret;
use crate::lookup;
use crate::memory::{Ending, JobMemory};
use crate::metrics::Now;
use crate::observe::{self, Observation};
use crate::remains;
use crate::report::{News, ReportOutcome, report};
use crate::retry::SOON;
use crate::second_look::{self, SecondLook};
use crate::wire::{ObjectKey, UserJob};

/// Observations in one pass: enough to see the effect of our own writes, too few to spin.
const ROUNDS_MAX: usize = 4;
/// Between two looks at a job that is gone, and of which the watch has not said so.
const GONE_RETRY: Duration = Duration::from_secs(5);

/// Between two tries of a job that has much to do.
const PLACE_RETRY: Duration = Duration::from_millis(100);

/// Between two checks whether a kind was listed that the API server refused to list.
const UNLISTED_RETRY: Duration = Duration::from_secs(10);

/// One pass over one job. Returns when the next is due without an event.
pub(crate) async fn reconcile(
    stored: Arc<UserJob>,
    context: Arc<Context>,
) -> Result<Option<Duration>, Error> {
    // The watch may say so after the pass was due and before it begins. Nobody would forget what this pass learned.
    if !context.memory.is_known(stored.uid()) {
        context.queue.drop(&stored.key());
        return Ok(None);
    }
    let too_often = |memory: &mut JobMemory| memory.restraint.wait();
    if let Some(wait) = context.memory.with(stored.uid(), too_often) {
        return Ok(Some(wait));
    }
    let held = held(&context, &stored).await; // client: watches
    let unfinished = context
        .memory
        .with(stored.uid(), |memory| memory.unfinished);
    let place = unfinished.then(|| context.long_passes.try_acquire());
    if place.as_ref().is_some_and(Result::is_err) {
        return Ok(Some(PLACE_RETRY));
    }
    // Held or not, a large job is read as a whole. Asked last: whoever may read uses the turn.
    let large = stored.is_left_out();
    let reading = large.then(|| context.large_jobs.try_read(&stored.key().namespace));
    if reading.as_ref().is_some_and(Option::is_none) {
        return Ok(Some(SOON));
    }
    context.queue.leave(&stored.key());
    let start = Instant::now();
    let job = Arc::clone(&stored);
    let work = async {
        match held {
            Some(held) => report_held(&context, job, held).await,
            None => pass(&context, job).await,
        }
    };
    // A panic over one job must not stop the others.
    let span = tracing::info_span!("reconcile", job = label(&stored));
    let result = AssertUnwindSafe(work).catch_unwind().instrument(span).await;
    let result = result.unwrap_or_else(|panic| Err(Error::panicked(&*panic)));
    context
        .metrics
        .reconcile_seconds
        .observe(start.elapsed().as_secs_f64());
    let requeue_after = result?;
    context
        .memory
        .with(stored.uid(), |memory| memory.failures = 0);
    Ok(requeue_after)
}

/// What the API server, or we, refuse, but for the time of the next try.
type Held = (Kind, u16, String);

/// Why nothing may be done for the job now.
async fn held(context: &Context, job: &UserJob) -> Option<Held> {
    match context.cache.wait_listed(context.served.also_makes).await {
        Err(unlisted) => Some(not_listed(unlisted)),
        Ok(()) => {
            let kind = context.cache.left_out(&job.key().namespace);
            kind.map(over_budget)
        }
    }
}

fn not_listed(Unlisted { kind, message }: Unlisted) -> Held {
    let message = format!("the operator may not watch it: {message}");
    (kind, 403, message)
}

fn over_budget(kind: Kind) -> Held {
    let message = format!(
        "this namespace has more {}s with muster's labels than muster keeps: delete those that belong to \
         no job",
        kind.as_str()
    );
    (kind, Refusal::OVER_BUDGET, message)
}

/// Without all objects, nothing may be concluded or done. The status of a job that is not over says so;
/// the rest of a status that was written before stands.
async fn report_held(
    context: &Context,
    stored: Arc<UserJob>,
    (kind, code, message): Held,
) -> Result<Option<Duration>, Error> {
    let stored = lookup::newest(context, stored).await?; // no client, unless it was left out
    let Some(stored) = stored else {
        return Ok(Some(UNLISTED_RETRY));
    };
    let whole = stored.whole(&context.resource);
    let dialect = context.served.dialect_of(&whole);
    let recorded = (dialect.recorded)(&whole);
    let concerned = !(dialect.managed_elsewhere)(&whole)
        && stored.metadata.deletion_timestamp.is_none()
        && recorded.outcome.is_none();
    if concerned && let Ok(job) = (dialect.lower)(&whole) {
        let now = context.now();
        let mut observed = Observed::alone(job, context.site.clone(), now);
        observed.refused.push(Refusal {
            kind,
            name: "(watch)".to_owned(),
            code,
            message,
            retry_at: now + UNLISTED_RETRY,
        });
        let status = planner::plan(&observed).status;
        let (jobs, now_shown) = (&context.metrics.jobs, Now::new(dialect.name, &status));
        jobs.show(&context.memory, stored.uid(), now_shown);
        let finding = match recorded.seen {
            true => Finding::Unseen(&status),
            false => Finding::Planned(&status),
        };
        let outcome = report(context, dialect, &stored, &whole, &finding, now).await?; // client
        if let ReportOutcome::Written(_, news) = outcome {
            news.tell(context).await; // client
        }
    }
    Ok(Some(UNLISTED_RETRY))
}

/// Returns when to reconcile again without an event.
async fn pass(context: &Context, stored: Arc<UserJob>) -> Result<Option<Duration>, Error> {
    let job = lookup::newest(context, stored).await?; // no client, unless the watch hangs
    let Some(mut job) = job else {
        return Ok(Some(GONE_RETRY));
    };
    // If the second turn panics, they are lost: the status says the same.
    let mut news = None;
    // Twice if a status is written: the outcome must be recorded before anything is cleaned up.
    for _ in 0..2 {
        let ((), turn) = futures::join!(tell(context, news.take()), turn(context, &job)); // client
        match turn? {
            (ReportOutcome::Written(newer, newest), _) => (job, news) = (newer, Some(newest)),
            (ReportOutcome::Deferred(wait), requeue_after) => {
                return Ok(Some(requeue_after.map_or(wait, |at| at.min(wait))));
            }
            (ReportOutcome::Unchanged, requeue_after) => return Ok(requeue_after),
        }
    }
    tell(context, news).await; // client
    Ok(Some(SOON))
}

async fn tell(context: &Context, news: Option<News>) {
    if let Some(news) = news {
        news.tell(context).await; // client
    }
}

/// Converges a job once and reports it. Also says when the next pass is due.
async fn turn(
    context: &Context,
    job: &Arc<UserJob>,
) -> Result<(ReportOutcome, Option<Duration>), Error> {
    let whole = job.whole(&context.resource); // no client
    let dialect = context.served.dialect_of(&whole);
    if (dialect.managed_elsewhere)(&whole) {
        return Ok((ReportOutcome::Unchanged, None));
    }
    if job.metadata.deletion_timestamp.is_some() {
        let requeue_after = clean_up_deleted(context, dialect, job, &whole).await?; // client
        return Ok((ReportOutcome::Unchanged, requeue_after));
    }
    match (dialect.lower)(&whole) {
        Err(errors) => {
            let invalid = Now::invalid(dialect.name);
            let jobs = &context.metrics.jobs;
            jobs.show(&context.memory, job.uid(), invalid);
            let (finding, now) = (Finding::Invalid(&errors), context.now());
            let outcome = report(context, dialect, job, &whole, &finding, now);
            Ok((outcome.await?, None)) // client
        }
        Ok(wanted) => {
            let converged = converge(context, dialect, &wanted, &whole).await?; // client
            let Some(converged) = converged else {
                return Ok((ReportOutcome::Unchanged, Some(SOON)));
            };
            let finding = Finding::Planned(&converged.plan.status);
            let outcome = report(context, dialect, job, &whole, &finding, converged.now);
            Ok((outcome.await?, converged.requeue_after)) // client
        }
    }
}

/// Deletes the pods of a job that is being deleted. The garbage collector does not, as long as a
/// finalizer holds the job. A job that cannot be read any more may have pods of the time when it could.
async fn clean_up_deleted(
    context: &Context,
    dialect: &Dialect,
    job: &UserJob,
    whole: &Value,
) -> Result<Option<Duration>, Error> {
    let Ok(wanted) = (dialect.lower)(whole) else {
        let remains = remains::remove_running(&context.cache, job.uid());
        if remains.is_empty() {
            return Ok(None);
        }
        apply::apply(context, &context.owner(job), vec![remains]).await?; // client
        // What was refused is due again later. If all was done, the next pass finds nothing to do.
        let now = context.now();
        let refusals = context
            .memory
            .with(job.uid(), |memory| memory.refusals(now));
        let retry_at = refusals.iter().map(|refusal| refusal.retry_at).min();
        return Ok(Some(retry_at.map_or(SOON, |at| until(at, now))));
    };
    let converged = converge(context, dialect, &wanted, whole).await?; // client
    Ok(converged.map_or(Some(SOON), |converged| converged.requeue_after))
}

/// A job for which nothing is left to do now.
struct Converged {
    plan: Plan,
    now: Timestamp,
    requeue_after: Option<Duration>,
}

/// Observes, plans and applies until nothing is left to do, at most `ROUNDS_MAX` times. None if what we know
/// turned out to be too old.
async fn converge(
    context: &Context,
    dialect: &Dialect,
    job: &Job,
    whole: &Value,
) -> Result<Option<Converged>, Error> {
    let recorded = key_secret::recorded(context, dialect, whole, &job.owner.uid); // no client
    context.memory.with(&job.owner.uid, |memory| {
        memory.observe_generation(job.owner.generation);
    });
    if let Some(adoption) = observe::find_launcher(context, job, &recorded).await? {
        apply::apply(context, &job.owner, vec![vec![adoption]]).await?; // client
    }
    let mut round = 1;
    loop {
        let Observation {
            observed,
            recheck_at,
        } = observe::observe(context, job, recorded.clone()).await?; // no client, except for the key
        note_launcher(context, job, &observed);
        let key = ObjectKey::new(&job.owner.namespace, &job.owner.name);
        context.pending.rest(&key, observed.workers.len());
        // Each of these takes a while for thousands of pods; others have their turn between them.
        tokio::task::yield_now().await;
        let mut plan = planner::plan(&observed); // no client
        tokio::task::yield_now().await;
        let violations = planner::check::violations(&observed, &plan); // no client
        if !violations.is_empty() {
            let law = violations.join("; ");
            return Err(Error::InvariantViolated { law });
        }
        let mut steps = std::mem::take(&mut plan.steps);
        let look = second_look::before(context, dialect, job, &observed.recorded, &mut steps);
        let look = look.await?; // client, if they start a launcher
        match look {
            SecondLook::Same => {}
            SecondLook::NewPods if round < ROUNDS_MAX => {
                round += 1;
                continue;
            }
            SecondLook::NewPods | SecondLook::OtherJob => return Ok(None),
        }
        let idle = steps.is_empty();
        let mut actions = steps.iter().flatten();
        let ends = actions.any(|action| matches!(action, Action::DeleteJob { .. }));
        let mut extent = Extent::Whole;
        if !idle {
            let phase = plan.status.phase.as_str();
            tracing::debug!(phase, waiting_on = ?plan.because, "{}", plan.status.message);
            extent = apply::apply(context, &job.owner, steps).await?; // client
        }
        context.memory.with(&job.owner.uid, |memory| {
            memory.unfinished = extent == Extent::Partial;
            if !idle && !memory.unfinished {
                memory.restraint.wrote();
            }
        });
        if idle || ends || extent == Extent::Partial || round == ROUNDS_MAX {
            measure(context, dialect, &observed, &plan.status, whole);
            let wake = plan.wake.into_iter().chain(recheck_at).min();
            let wake = wake.map(|at| until(at, observed.now));
            // The rest of a large plan waits for nothing; others may have their turn meanwhile.
            let unfinished = match extent {
                Extent::Partial => Some(Duration::ZERO),
                Extent::Whole => (!idle && !ends).then_some(SOON),
            };
            let requeue_after = wake.into_iter().chain(unfinished).min();
            return Ok(Some(Converged {
                plan,
                now: observed.now,
                requeue_after,
            }));
        }
        round += 1;
    }
}

/// Remembers and shows that the job has a launcher.
fn note_launcher(context: &Context, job: &Job, observed: &Observed) {
    let exists = observed.launcher.ours().is_some() || !observed.launcher_pods.is_empty();
    context.memory.with(&job.owner.uid, |memory| {
        memory.sees(&observed.recorded, exists);
    });
    if exists {
        let jobs = &context.metrics.jobs;
        jobs.show_launcher(&context.memory, &job.owner, &job.names.launcher);
    }
}

/// Shows what is true of the job, and measures the life of one that has just ended.
fn measure(
    context: &Context,
    dialect: &Dialect,
    observed: &Observed,
    status: &Status,
    whole: &Value,
) {
    let uid = &observed.job.owner.uid;
    let now = Now::new(dialect.name, status);
    context.metrics.jobs.show(&context.memory, uid, now);
    let Some(outcome) = &status.outcome else {
        return;
    };
    if observed.recorded.outcome.is_none() {
        let created_at = whole["metadata"]["creationTimestamp"].as_str();
        let created_at = created_at.and_then(|text| text.parse().ok());
        let ending = Ending {
            reason: status.reason,
            parts: created_at.map_or_else(Vec::new, |created_at| {
                planner::parts_of_life(observed, created_at, outcome.at)
            }),
        };
        context
            .memory
            .with(uid, |memory| memory.ending = Some(ending));
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    // A little late rather than early: an early pass would find that nothing is due.
    Duration::try_from(now.duration_until(at)).unwrap_or(Duration::ZERO) + Duration::from_millis(5)
}

#[cfg(test)]
mod tests {
    use kube::Client;
    use kube::client::Body;

    use super::*;
    use crate::api::Api;
    use crate::assembly::Assembly;
    use crate::metrics::{Format, Metrics};
    use crate::scope::{KeySource, Scope};

    /// An operator's context for jobs of Kubeflow, with an API server that nobody may ask.
    fn context(metrics: &Arc<Metrics>) -> Arc<Context> {
        let refuse = tower::service_fn(|request: http::Request<Body>| async move {
            let asked = request.uri().to_string();
            Err::<http::Response<Body>, _>(std::io::Error::other(asked))
        });
        let api = Api::new(Client::new(refuse, "default"), Arc::default());
        let scope = Scope {
            site: planner::site::Site::default(),
            namespace: None,
            concurrency: 1,
            clock: || Timestamp::UNIX_EPOCH,
            nonce: crate::nonce,
            keys: KeySource::FRESH,
        };
        let mut contexts = Assembly::new(&api, metrics, &scope).contexts;
        Arc::new(contexts.remove(0))
    }

    #[tokio::test]
    async fn c15_a_pass_that_begins_after_its_job_is_gone_learns_nothing() {
        let metrics = Arc::new(Metrics::new());
        let context = context(&metrics);
        let text =
            r#"{"metadata": {"namespace": "team-a", "name": "ring", "uid": "1"}, "spec": {}}"#;
        let job = UserJob::read(text).expect("it is a job");
        context.memory.learn(job.uid());
        context.queue.enter(&job.key());
        context.memory.forget(job.uid(), &job.key());

        let ended = reconcile(Arc::clone(&job), Arc::clone(&context)).now_or_never();
        assert!(!context.memory.is_known(job.uid()));
        assert!(matches!(ended, Some(Ok(None))), "{ended:?}");
        let text = metrics.text(Format::Classic);
        assert!(text.contains("muster_work_queue_depth 0"), "{text}");
    }
}
