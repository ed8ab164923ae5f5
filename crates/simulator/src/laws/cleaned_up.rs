//! I13.

use std::sync::Arc;

use jiff::SignedDuration;
use planner::Outcome;
use planner::job::{CleanUp, LauncherKind};

use super::{Broken, Law, Rest, View, Write};
use crate::job_view::JobView;
use crate::{clock, objects};

pub(super) const SENTENCE: &str = "Of a job that is over, no worker is left that its clean-up policy removes, nothing is left after its time to live, and none is deleted that its policy keeps.";

#[derive(Default)]
pub(super) struct CleanedUp;

const UNSEEN: SignedDuration = SignedDuration::from_secs(5);

impl Law for CleanedUp {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        let is_delete = write.call.method == http::Method::DELETE;
        if !is_delete || write.call.plural != "pods" || view.weather.stale_views {
            return Ok(());
        }
        // What was decided before the outcome was recorded may come a little later.
        let keeps = |job: &&Arc<JobView>| {
            let lowered = job.lowered.as_ref();
            let recorded = job.recorded.outcome.as_ref();
            let long = |outcome: &Outcome| clock::now().duration_since(outcome.at) > UNSEEN;
            lowered.is_some_and(|job| job.lifecycle.clean_up == CleanUp::Nothing)
                && recorded.is_some_and(long)
        };
        let concerned = |job: &&Arc<JobView>| {
            let of_many = write.call.query.contains(job.uid());
            of_many
                || write
                    .before
                    .is_some_and(|pod| objects::job_uid(pod) == job.uid())
        };
        match view.jobs.iter().filter(concerned).find(keeps) {
            Some(job) => Err(format!("{} of {}", write.call.line(), job.name())),
            None => Ok(()),
        }
    }

    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        for job in view.jobs {
            let Some(lowered) = &job.lowered else {
                continue;
            };
            if !job.is_over() || job.outlives_launcher() {
                continue;
            }
            if let Some(what) = outlived(view, job) {
                return Err(format!("{what} is left after its time to live"));
            }
            for pod in job.workers(view.cluster) {
                let stays = match lowered.lifecycle.clean_up {
                    CleanUp::Nothing => true,
                    CleanUp::Running | CleanUp::Notify => !objects::is_live(pod),
                    CleanUp::All => false,
                };
                if !stays {
                    return Err(format!("{} is left", objects::name(pod)));
                }
            }
        }
        Ok(())
    }
}

/// The job, or its launcher's Job, if it should be gone.
fn outlived(view: &View<'_>, job: &JobView) -> Option<&'static str> {
    let lowered = job.lowered.as_ref()?;
    let age = clock::now().duration_since(job.recorded.outcome.as_ref()?.at);
    let is_due = |secs: u32| age > SignedDuration::from_secs(secs.into());
    if lowered.limits().expires_secs.is_some_and(is_due) {
        return Some("the job");
    }
    let LauncherKind::Job { ttl_secs, .. } = lowered.launcher.kind else {
        return None;
    };
    let mut launchers = view.cluster.objects("batch", "jobs");
    let is_left = launchers.any(|one| objects::controller(one) == Some(job.uid()));
    (is_left && ttl_secs.is_some_and(is_due)).then_some("its launcher")
}
