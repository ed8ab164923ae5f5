//! Which gang scheduler a job gets that takes the one that is found (`Auto`): the first whose API the
//! cluster serves. Decides that a job keeps what it was started with.

use planner::site::{GangApi, Site};
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
    // Each start may find another one.
    let resumed = recorded.suspended && !job.lifecycle.suspended;
    let uid = &job.owner.uid;
    let known = context.memory.with(uid, |memory| memory.found_gang);
    let found = match known.filter(|_| !resumed) {
        Some(found) => found,
        None => {
            let has_begun = recorded.seen && recorded.outcome.is_none() && !resumed;
            let found = find(lookup, job, has_begun).await;
            found.map_err(|source| Error::Observe {
                what: "which gang schedulers there are".to_owned(),
                source,
            })?
        }
    };
    let keep = Some(found);
    context.memory.with(uid, |memory| memory.found_gang = keep);
    site.found_gang = found.map(GangApi::usual_scheduler);
    Ok(site)
}

/// A job that an operator began before us has its group, or pods that are in none.
async fn find(lookup: Lookup<'_>, job: &Job, has_begun: bool) -> Result<Option<GangApi>, ApiError> {
    let context = lookup.context;
    let served = context.gang_apis.served(&context.api).await?;
    if has_begun {
        for gang in &served {
            let kind = Kind::PodGroup(*gang);
            if let Found::Ours { .. } | Found::Unlabelled { .. } =
                lookup.find(&kind, &job.names.pod_group).await?
            {
                return Ok(Some(*gang));
            }
        }
        let workers = PodLookup { context, job }.of_workers(None);
        if !workers.is_empty() {
            return Ok(None);
        }
    }
    Ok(served.first().copied())
}
