//! Decides when to look at a job again even if nothing happens.

use jiff::Timestamp;

use super::situation::Situation;
use super::{cleanup, deadline, expiry, recovery, stuck};

/// When to look again.
pub(super) fn at(situation: &Situation<'_>) -> Option<Timestamp> {
    let observed = situation.observed;
    if situation.is_clean {
        let expiries = [expiry::at(observed), expiry::of_launcher(observed)];
        return expiries.into_iter().flatten().min();
    }
    let over = observed.recorded.outcome.is_some();
    let stuck = stuck::worst(observed).map(|stuck| stuck.until());
    let deadlines = [
        deadline::of_job(observed),
        deadline::of_startup(observed),
        stuck,
    ];
    let deadlines = deadlines.into_iter().flatten().filter(|_| !over);
    let retries = observed.refused.iter().map(|refusal| refusal.retry_at);
    deadlines
        .chain(retries)
        .chain(cleanup::grace_end(observed))
        .chain(recovery::wake(observed).filter(|_| !over))
        .filter(|at| *at > observed.now)
        .min()
}
