//! Policy: the PodGroup of a job, where the site has a gang scheduler.

use crate::job::Job;
use crate::observed::{Observed, Site};
use crate::plan::Action;
use crate::render::pod::Draft;

/// The group exists and says what the job says now.
pub(crate) fn ensure(_observed: &Observed) -> Vec<Action> {
    Vec::new()
}

/// The group goes.
pub(crate) fn remove(_observed: &Observed) -> Vec<Action> {
    Vec::new()
}

/// Makes a pod a member of the group.
pub(crate) fn decorate(_job: &Job, _site: &Site, _draft: &mut Draft) {}
