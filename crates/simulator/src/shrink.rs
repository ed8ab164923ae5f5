//! Makes a failing schedule smaller: without faults and without actions of the user that do not matter.

use crate::run::weather;
use crate::schedule::Schedule;

/// The smallest schedule that still breaks the same law, found by leaving out one thing at a time.
pub fn shrink(schedule: &Schedule) -> Schedule {
    let Some(law) = law(schedule) else {
        return schedule.clone();
    };
    let mut best = schedule.clone();
    loop {
        let faults = (0..best.faults.len()).map(|index| {
            let mut smaller = best.clone();
            smaller.faults.remove(index);
            smaller
        });
        // The first action is the submission.
        let actions = (1..best.script.len()).map(|index| {
            let mut smaller = best.clone();
            smaller.script.remove(index);
            smaller
        });
        let mut smaller = faults.chain(actions);
        let Some(found) = smaller.find(|smaller| self::law(smaller).as_ref() == Some(&law)) else {
            return best;
        };
        best = found;
    }
}

/// The law that a schedule breaks.
fn law(schedule: &Schedule) -> Option<String> {
    let violation = weather(schedule, false).violation?;
    let law = violation.split(':').next().unwrap_or_default();
    Some(law.to_owned())
}
