//! I22.

use std::collections::BTreeMap;

use contract::Reason;
use jiff::SignedDuration;
use planner::Verdict;

use super::{Broken, Law, PROMPT_MS, Rest, View, Write};
use crate::clock;

pub(super) const SENTENCE: &str = "A job with a deadline is over soon after it, also if its launcher never started, and never because of it while the job is suspended.";

/// Since when jobs are suspended that are not over.
#[derive(Default)]
pub(super) struct DeadlinesBind(BTreeMap<String, u64>);

/// The operator looks at the right time; its clock counts whole seconds.
const PROMPT_SECS: u64 = 10;
/// An operator that crashed, slept or saw old objects looks later.
const LATE_SECS: u64 = 150;

impl Law for DeadlinesBind {
    fn after_write(&mut self, view: &View<'_>, _: &Write<'_>) -> Result<(), Broken> {
        let now = clock::millis();
        for job in view.jobs {
            if !job.is_suspended() {
                self.0.remove(job.uid());
            } else if !job.is_over() {
                self.0.entry(job.uid().to_owned()).or_insert(now);
            } else if let Some(since) = self.0.remove(job.uid()) {
                let outcome = job.recorded.outcome.as_ref();
                let by_deadline = outcome.is_some_and(|outcome| match &outcome.verdict {
                    Verdict::Failed { reason, .. } => reason == Reason::DeadlineExceeded.as_str(),
                    Verdict::Succeeded => false,
                });
                if by_deadline && since + PROMPT_MS <= now && !view.weather.stale_views {
                    return Err(format!("it struck {} ms after the suspension", now - since));
                }
            }
        }
        Ok(())
    }

    fn at_rest(&mut self, view: &View<'_>, rest: &Rest<'_>) -> Result<(), Broken> {
        let slack = match rest.struck.is_empty() {
            true => PROMPT_SECS,
            false => LATE_SECS,
        };
        for job in view.jobs {
            let lowered = job.lowered.as_ref();
            let limit = lowered.and_then(|job| job.limits().deadline_secs);
            let recorded = &job.recorded;
            let (Some(limit), Some(started), Some(outcome)) =
                (limit, recorded.started_at, &recorded.outcome)
            else {
                continue;
            };
            let latest =
                SignedDuration::from_secs(i64::try_from(limit + slack).unwrap_or(i64::MAX));
            let took = outcome.at.duration_since(started);
            if took > latest && !view.weather.wrong_clocks {
                return Err(format!("it took {took:#} with a deadline of {limit} s"));
            }
        }
        Ok(())
    }
}
