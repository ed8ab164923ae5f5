//! Which gang scheduler a job gets that takes the one that is found (`Auto`): the first whose API the
//! cluster serves. Decides that a job keeps what it was started with.

use planner::site::{FoundGang, Site};
use planner::{Job, Kind, Recorded};

use crate::api_error::ApiError;
use crate::error::Error;
use crate::lookup::{Found, Lookup};
use crate::pod_lookup::PodLookup;

/// The settings, with the gang scheduler that this job has or gets.
pub(crate) async fn site(
    lookup: Lookup<'_>,
    job: &Job,
    recorded: &Recorded,
) -> Result<Site, Error> {
    let context = lookup.context;
    let mut site = context.site.clone();
    if !job.takes_found_gang(&site) {
        return Ok(site);
    }
    // Each start may find another one, and keeps it while the status still records the suspension.
    let resumed = recorded.suspended && !job.lifecycle.suspended;
    let uid = &job.owner.uid;
    let known = context.memory.with(uid, |memory| {
        memory
            .found_gang
            .filter(|_| memory.gang_is_of_resume || !resumed)
    });
    let found = match (resumed, recorded.gang, known) {
        (false, Some(found), _) | (_, _, Some(found)) => found,
        (true, _, None) | (false, None, None) => {
            let found = find(lookup, job, recorded.seen).await;
            found.map_err(|source| Error::Observe {
                what: "which gang schedulers there are".to_owned(),
                source,
            })?
        }
    };
    context.memory.with(uid, |memory| {
        memory.found_gang = Some(found);
        memory.gang_is_of_resume = resumed;
    });
    site.found_gang = found.scheduler();
    Ok(site)
}

/// A job that was begun and not recorded has its group, or pods that are in none.
async fn find(lookup: Lookup<'_>, job: &Job, has_begun: bool) -> Result<FoundGang, ApiError> {
    let context = lookup.context;
    let served = context.gang_apis.served(&context.api).await?;
    if has_begun {
        for gang in &served {
            let kind = Kind::PodGroup(*gang);
            if let Found::Ours { .. } | Found::Unlabelled { .. } =
                lookup.find(&kind, &job.names.pod_group).await?
            {
                return Ok(FoundGang::Scheduler(*gang));
            }
        }
        // Those of a run before may still be ending.
        let mut workers = PodLookup { context, job }.of_workers(None).into_iter();
        if workers.any(|pod| !pod.deleting && !pod.phase.is_over()) {
            return Ok(FoundGang::Nobody);
        }
    }
    let first = served.first().copied();
    Ok(first.map_or(FoundGang::Nobody, FoundGang::Scheduler))
}
