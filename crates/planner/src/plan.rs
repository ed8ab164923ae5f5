//! The decision: what to do about a job, what to report of it, when to look again, and why.
//!
//! A plan is so specific that carrying it out leaves no choice: every object is rendered, every
//! delete and patch names a UID. Each policy has a file of its own below this one.

use jiff::Timestamp;

pub use self::agent_report::read_agent_report;
use self::blocked::Block;
use self::situation::Situation;
pub use self::stuck::more_hopeful_cause;
use crate::action::Action;
use crate::observed::Observed;
use crate::phase::Phase;
use crate::reach::Reach;
use crate::recorded::Outcome;
use crate::status::Status;
use crate::waiting_on::WaitingOn;

mod account;
mod agent_report;
mod blocked;
mod cleanup;
mod deadline;
mod expiry;
mod explain;
mod gang;
mod history;
mod hosts;
mod identity;
mod launcher;
mod merge_patch;
mod network_policy;
mod pods;
mod recovery;
mod retry;
mod situation;
mod size;
mod startup;
mod stuck;
mod verdict;
mod wake;
mod worker_set;
mod workers;

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let situation = Situation::of(observed);
    let steps = permitted(observed, steps(&situation));
    let (because, status) = explain::status(&situation);
    Plan {
        steps,
        status,
        wake: wake::at(&situation),
        because,
    }
}

fn steps(situation: &Situation<'_>) -> Vec<Vec<Action>> {
    let observed = situation.observed;
    match situation.phase {
        Phase::Finished => Vec::new(),
        Phase::Blocked => vec![account::narrow(observed)],
        Phase::Finishing => vec![situation.cleanup.clone()],
        Phase::Deleting => vec![[launcher::stop(observed), workers::remove_all(observed)].concat()],
        Phase::Suspended => {
            let is_refused = matches!(situation.block, Some(Block::Namespace));
            suspend(observed, situation.reach.filter(|_| !is_refused))
        }
        Phase::Preparing
        | Phase::Gathering
        | Phase::Launching
        | Phase::Running
        | Phase::LauncherExited => match situation.reach {
            Some(reach) => run(observed, reach, situation.outcome.as_ref()),
            None => Vec::new(),
        },
    }
}

/// Objects that are not pods come at once, so that the job starts quickly when it is resumed.
fn suspend(observed: &Observed, reach: Option<Reach<'_>>) -> Vec<Vec<Action>> {
    let objects = reach.map(|reach| {
        [
            identity::ensure(observed, reach),
            network_policy::ensure(observed),
        ]
        .concat()
    });
    let launcher = match reach.filter(|_| identity::is_recorded(observed)) {
        Some(reach) => launcher::align(observed, reach),
        None => launcher::stop(observed),
    };
    let pods = [
        launcher,
        workers::remove_all(observed),
        gang::remove(observed),
    ];
    // After the pods: a worker that stays shows that its keys are there.
    let keys = identity::remove_agent_keys(observed);
    vec![
        objects.unwrap_or_default(),
        pods.concat(),
        keys.into_iter().collect(),
    ]
}

/// The launcher comes last: where a worker is refused, it must not start and fail.
fn run(observed: &Observed, reach: Reach<'_>, outcome: Option<&Outcome>) -> Vec<Vec<Action>> {
    let objects = [
        identity::ensure(observed, reach),
        network_policy::ensure(observed),
        account::ensure(observed),
        gang::ensure(observed),
    ];
    if !identity::is_recorded(observed) {
        return vec![objects.concat()];
    }
    let workers = [
        account::bind(observed),
        retry::remove_counted(observed),
        recovery::forget_abandoned(observed),
        workers::ensure(observed, reach, outcome),
    ];
    let launcher = [
        launcher::align(observed, reach),
        hosts::publish(observed, reach),
    ];
    if gang::is_leaving(observed) {
        return vec![objects.concat()];
    }
    vec![objects.concat(), workers.concat(), launcher.concat()]
}

/// The steps without empty ones, and without what the API server just refused. A step that loses an
/// action ends the plan: what comes after it must not come before it.
fn permitted(observed: &Observed, steps: Vec<Vec<Action>>) -> Vec<Vec<Action>> {
    let mut kept = Vec::new();
    for step in steps {
        let asked = step.len();
        let may_try = |action: &Action| blocked::may_try(observed, action);
        let step: Vec<Action> = step.into_iter().filter(may_try).collect();
        let whole = step.len() == asked;
        if !step.is_empty() {
            kept.push(step);
        }
        if !whole {
            break;
        }
    }
    kept
}

/// What to do, what to report, when to look again, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Actions of one step may run at the same time; a step starts when the one before it is
    /// done. Steps are never empty.
    pub steps: Vec<Vec<Action>>,
    /// What is true of the job now.
    pub status: Status,
    /// When to look again even if nothing happens.
    pub wake: Option<Timestamp>,
    /// What the job waits for, once the steps are done. The status has the same in words.
    pub because: WaitingOn,
}
