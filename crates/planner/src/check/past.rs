//! The law about what a status tells of the past: what was recorded stays as long as the job is not started anew,
//! nothing is said of the future, and there is no more of it than a status may hold.

use contract::milestone::{ATTEMPTS_MAX, LATE_WORKERS_MAX};
use jiff::Timestamp;

use crate::history::SKEW_MAX;
use crate::observed::Observed;
use crate::status::Status;

pub(super) fn law(observed: &Observed, status: &Status, found: &mut Vec<String>) {
    let (job, recorded) = (&observed.job, &observed.recorded);
    let (old, new) = (&recorded.history, &status.history);
    let is_resumed = recorded.suspended && !job.lifecycle.suspended && recorded.outcome.is_none();
    let begins_anew = is_resumed || job.outlives_launcher();
    let credible = observed.now.checked_add(SKEW_MAX);
    let credible = credible.unwrap_or(Timestamp::MAX);
    for (milestone, at) in &new.milestones {
        if *at > credible && old.milestones.get(milestone) != Some(at) {
            let name = milestone.as_str();
            found.push(format!("milestone {name} is said to be in the future"));
        }
    }
    let kept = old.milestones.iter().filter(|(_, at)| **at <= credible);
    for (milestone, at) in kept.filter(|_| !begins_anew) {
        if new.milestones.get(milestone) != Some(at) {
            let name = milestone.as_str();
            found.push(format!("milestone {name} was recorded and is changed"));
        }
    }
    if new.slowest.len() > LATE_WORKERS_MAX || new.attempts.len() > ATTEMPTS_MAX {
        found.push("the status tells more of the past than it may hold".to_owned());
    }
}
