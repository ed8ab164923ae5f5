//! I1.

use std::collections::BTreeSet;

use super::{Broken, Law, View, Write};
use crate::objects;

pub(super) const SENTENCE: &str = "A job has at most one launcher pod that may run.";

#[derive(Default)]
pub(super) struct OneLauncher;

impl Law for OneLauncher {
    fn after_write(&mut self, view: &View<'_>, _: &Write<'_>) -> Result<(), Broken> {
        let mut seen = BTreeSet::new();
        for pod in objects::pods(view.cluster).filter(|pod| objects::is_launcher(pod)) {
            if objects::is_live(pod) && !seen.insert(objects::job_uid(pod)) {
                return Err(format!("{} is the second", objects::name(pod)));
            }
        }
        Ok(())
    }
}
