//! How a run ended, as users see it: without names, times and numbers that chance decides.

use std::collections::BTreeSet;

use minicluster::Cluster;
use planner::Verdict;

use crate::objects;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aftermath(pub String);

/// Of a job that is not over.
const OPEN: &str = "not over";

impl Aftermath {
    /// A job is not over: it is suspended, or outlives its launcher.
    pub(crate) fn is_open(&self) -> bool {
        self.0.starts_with(OPEN)
    }

    pub(crate) fn of(cluster: &Cluster) -> Self {
        let mut lines = Vec::new();
        for (resource, job) in objects::jobs(cluster) {
            let recorded = (resource.dialect_of(job).recorded)(job);
            let verdict = match recorded.outcome.map(|outcome| outcome.verdict) {
                Some(Verdict::Succeeded) => "succeeded".to_owned(),
                Some(Verdict::Failed { reason, .. }) => format!("failed ({reason})"),
                None => OPEN.to_owned(),
            };
            let mut workers = 0;
            let mut launchers = BTreeSet::new();
            for pod in
                objects::pods(cluster).filter(|pod| objects::job_uid(pod) == objects::uid(job))
            {
                let phase = pod["status"]["phase"].as_str().unwrap_or_default();
                // Where a worker fails, too, chance decides whether the job had a launcher before.
                let is_by_chance = phase == "Failed" && verdict.starts_with("failed");
                match objects::is_launcher(pod) {
                    true if is_by_chance => {}
                    true => _ = launchers.insert(phase),
                    false => workers += usize::from(objects::is_live(pod)),
                }
            }
            lines.push(format!(
                "{verdict}, {workers} workers, launchers {launchers:?}"
            ));
        }
        for (group, plural) in objects::CHILDREN
            .iter()
            .filter(|(_, plural)| *plural != "pods")
        {
            let owned =
                |object: &&std::sync::Arc<serde_json::Value>| objects::controller(object).is_some();
            let count = cluster.objects(group, plural).filter(owned).count();
            if count > 0 {
                lines.push(format!("{count} {plural}"));
            }
        }
        Self(lines.join("; "))
    }
}
