//! I27.

use super::{Broken, Law, View, Write};
use crate::objects;

pub(super) const SENTENCE: &str = "While a job that recovers runs, the operator removes none of its workers but those that have ended, or that others deleted.";

#[derive(Default)]
pub(super) struct SurvivorsStay;

impl Law for SurvivorsStay {
    fn after_write(&mut self, view: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        let call = write.call;
        if call.plural != "pods" || call.method != http::Method::DELETE {
            return Ok(());
        }
        if let Some(pod) = write.before {
            let mut jobs = view.jobs.iter();
            return match jobs.find(|job| job.runs_and_recovers(pod)) {
                Some(_) if objects::stays(pod) => Err(objects::name(pod).to_owned()),
                _ => Ok(()),
            };
        }
        let mut jobs = view.jobs.iter();
        let all = jobs.find(|job| job.recovers() && call.query.contains(job.uid()));
        // Workers above the number that the user wants now go in one request, too.
        match all.filter(|job| job.wants_its_pods() && !view.weather.was_scaled) {
            Some(job) => Err(format!("{} of {}", call.line(), job.name())),
            None => Ok(()),
        }
    }
}
