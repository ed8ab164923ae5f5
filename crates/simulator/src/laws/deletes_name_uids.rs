//! I5.

use contract::labels::JOB_UID_LABEL;

use super::{Broken, Law, View, Write};

pub(super) const SENTENCE: &str = "Every delete but that of a key Secret names the UID of its object, and every delete of many the UID of their job.";

#[derive(Default)]
pub(super) struct DeletesNameUids;

impl Law for DeletesNameUids {
    fn after_write(&mut self, _: &View<'_>, write: &Write<'_>) -> Result<(), Broken> {
        let label = JOB_UID_LABEL.replace('/', "%2F");
        let named = match write.call.rbac_verb() {
            // The operator may not read Secrets, so it does not know their UIDs.
            "delete" if write.call.plural == "secrets" => true,
            "delete" => write.body["preconditions"]["uid"].is_string(),
            "deletecollection" => {
                write.call.query.contains(&label) || write.call.query.contains(JOB_UID_LABEL)
            }
            _ => true,
        };
        match named {
            true => Ok(()),
            false => Err(format!("{} names none", write.call.line())),
        }
    }
}
