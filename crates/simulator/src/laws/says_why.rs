//! I25.

use contract::Reason;

use super::{Broken, Foreign, Law, View};
use crate::clock;

pub(super) const SENTENCE: &str = "A job that waits for a name which somebody else has says so within thirty seconds, if nothing else goes wrong.";

#[derive(Default)]
pub(super) struct SaysWhy;

const PROMPT_MS: u64 = 30_000;

impl Law for SaysWhy {
    fn before_calm(&mut self, view: &View<'_>, foreign: &Foreign) -> Result<(), Broken> {
        let long_ago = |at: u64| at + PROMPT_MS <= clock::millis();
        let quiet = view.weather.struck_at.is_none_or(long_ago);
        let mut taken = foreign.0.iter().filter(|planted| planted.takes_a_name);
        let Some(planted) = taken.find(|planted| quiet && long_ago(planted.at)) else {
            return Ok(());
        };
        for job in view.jobs {
            let reason = &job.object["status"]["muster"]["reason"];
            let waits = !job.is_over() && !job.is_suspended() && view.weather.is_left_alone;
            if waits && *reason != Reason::NameTaken.as_str() {
                return Err(format!("{} has reason {reason}", planted.path));
            }
        }
        Ok(())
    }
}
