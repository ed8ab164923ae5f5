//! I2.

use std::collections::BTreeSet;

use contract::labels::REPLICA_INDEX_LABEL;

use super::{Broken, Law, View, Write};
use crate::objects;

pub(super) const SENTENCE: &str = "A job has at most one worker that may run for each index.";

#[derive(Default)]
pub(super) struct OnePodPerRank;

impl Law for OnePodPerRank {
    fn after_write(&mut self, view: &View<'_>, _: &Write<'_>) -> Result<(), Broken> {
        let mut seen = BTreeSet::new();
        let workers = objects::pods(view.cluster).filter(|pod| !objects::is_launcher(pod));
        for pod in workers.filter(|pod| objects::is_live(pod)) {
            let index = pod["metadata"]["labels"][REPLICA_INDEX_LABEL].as_str();
            if let Some(index) = index
                && !seen.insert((objects::job_uid(pod), index))
            {
                return Err(format!("{} is the second of its index", objects::name(pod)));
            }
        }
        Ok(())
    }
}
