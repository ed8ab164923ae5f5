//! I16.

use std::collections::BTreeSet;

use planner::Keys;
use planner::site::Site;

use super::{Broken, Law, Rest, View, Write};
use crate::objects;

pub(super) const SENTENCE: &str =
    "No key of a Secret is written anywhere else, and keys of one start do not outlive the job.";

/// The values of Secrets that the operator created.
#[derive(Default)]
pub(super) struct KeyHygiene(BTreeSet<String>);

/// Shorter values are no keys.
const KEY_BYTES_MIN: usize = 32;

impl Law for KeyHygiene {
    fn after_write(&mut self, _: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        if write.call.plural == "secrets" {
            let data = write.body["data"].as_object().into_iter().flatten();
            let values = data.filter_map(|(name, value)| {
                let value = value.as_str()?;
                let is_public = name.contains("pub");
                (!is_public && value.len() >= KEY_BYTES_MIN).then(|| value.to_owned())
            });
            self.0.extend(values);
            return Ok(());
        }
        // Nothing shorter contains one.
        let is_of_base64 = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
        let mut words = write.text.split(|letter| !is_of_base64(letter));
        let has_key = |word: &str| {
            word.len() >= KEY_BYTES_MIN && self.0.iter().any(|key| word.contains(key.as_str()))
        };
        match words.any(has_key) {
            true => Err(format!("{} contains a key", write.call.line())),
            false => Ok(()),
        }
    }

    fn at_rest(&mut self, view: &View<'_>, _: &Rest<'_>) -> Result<(), Broken> {
        let site = Site::default();
        for job in view.jobs {
            let is_over = job.recorded.outcome.is_some();
            let lowered = job.lowered.as_ref();
            let ended = lowered.filter(|lowered| is_over || lowered.lifecycle.suspended);
            let keys = ended.and_then(|lowered| lowered.keys(&site));
            let Some(Keys::Agent { .. }) = keys else {
                continue;
            };
            let mut own = view.cluster.objects("", "secrets");
            let own = own.find(|one| objects::controller(one) == Some(job.uid()));
            if let Some(secret) = own {
                return Err(format!("{} is left", objects::name(secret)));
            }
        }
        Ok(())
    }
}
