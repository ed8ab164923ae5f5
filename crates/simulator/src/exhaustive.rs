//! Every fault of the operator and its connection at every write of a schedule, and every pair of the worst.
//! Decides which schedules that makes; whoever runs them decides when.

use crate::fault::{Fault, FaultKind};
use crate::run::run;
use crate::schedule::Schedule;

/// The schedule with each of these faults at each write of each replica.
pub fn singles(schedule: &Schedule, kinds: &[FaultKind]) -> Vec<Schedule> {
    let writes = run(schedule, false).writes;
    let places = (0..).zip(writes).flat_map(|(replica, writes)| {
        let writes = 0..writes;
        writes.map(move |write| (replica, write))
    });
    let each = |place| kinds.iter().map(move |kind| with(schedule, place, *kind));
    places.flat_map(each).collect()
}

/// A schedule whose last fault is the first of a pair, with each of these faults at each later write of the
/// same replica, and at each write of the others. The first fault may have made the writes more.
pub fn seconds(schedule: &Schedule, kinds: &[FaultKind]) -> Vec<Schedule> {
    let Some(first) = schedule.faults.last() else {
        return Vec::new();
    };
    let all = singles(schedule, kinds);
    let is_later = |second: &Schedule| {
        let second = second.faults.last().unwrap_or(first);
        second.replica > first.replica
            || (second.replica == first.replica && second.write > first.write)
    };
    all.into_iter().filter(is_later).collect()
}

fn with(schedule: &Schedule, (replica, write): (usize, u32), kind: FaultKind) -> Schedule {
    let mut schedule = schedule.clone();
    schedule.faults.push(Fault {
        replica,
        write,
        kind,
    });
    schedule
}
