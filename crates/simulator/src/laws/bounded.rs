//! I24.

use super::{Broken, Law, Rest, View};

pub(super) const SENTENCE: &str = "A job costs a bounded number of writes, whatever goes wrong.";

#[derive(Default)]
pub(super) struct Bounded;

/// Of a job without workers that nobody disturbs, for one operator.
const BASE: usize = 40;
/// For each worker, each action of the user, and each fault.
const EACH: usize = 25;

impl Law for Bounded {
    fn at_rest(&mut self, _: &View<'_>, rest: &Rest<'_>) -> Result<(), Broken> {
        let schedule = rest.schedule;
        let jobs = 1 + usize::from(schedule.beside.is_some());
        let events = 4 * jobs + schedule.script.len() + rest.struck.len();
        let max = (BASE + EACH * events) * schedule.replicas;
        match rest.writes as usize > max {
            true => Err(format!("{} writes, and {max} are enough", rest.writes)),
            false => Ok(()),
        }
    }
}
