//! Every object that a job becomes on an empty cluster. Knows nothing of what those objects hold.

use anyhow::Result;
use jiff::Timestamp;
use planner::job::LauncherStart;
use planner::site::Site;
use planner::{Action, Job, Observed};
use serde_json::Value;

use crate::exit::{self, Failure};

/// What the planner creates, step by step. A job that waits or is suspended is shown as if it did
/// not and was not: the question is what it becomes.
pub(crate) fn of(mut job: Job, site: &Site) -> Result<Vec<Value>> {
    job.launcher.start = LauncherStart::AtOnce;
    job.lifecycle.suspended = false;
    let name = job.owner.name.clone();
    let mut observed = Observed::alone(job, site.clone(), Timestamp::UNIX_EPOCH);
    observed.nonce = RANDOM.to_owned();
    observed.recorded.keys = planner::plan(&observed).status.keys;
    let plan = planner::plan(&observed);
    // On an empty cluster there is nothing to change or delete.
    let created = plan.steps.iter().flatten().flat_map(Action::objects);
    let created: Vec<_> = created.map(|object| object.body).collect();
    if created.is_empty() {
        let why = &plan.status.message;
        let text = format!("{name} becomes no object: {why}");
        return Err(Failure::new(exit::FAILED, text));
    }
    Ok(created)
}

/// In the place of letters that the operator draws.
const RANDOM: &str = "random";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;

    fn rendered(file: &str, agent_image: Option<&str>) -> Result<Vec<Value>> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
        let site = Site {
            agent_image: agent_image.map(str::to_owned),
            ..Site::default()
        };
        let manifest = manifest::read(&format!("{root}{file}"))?;
        let jobs = manifest.objects();
        let mut jobs = jobs.iter().filter_map(manifest::lower);
        of(jobs.next().unwrap().unwrap(), &site)
    }

    #[test]
    fn m02_a_job_is_rendered_as_the_shipped_operator_makes_it() {
        for file in ["pi.yaml", "pi-without-ssh.yaml", "seeds/bdap.yaml"] {
            let objects = rendered(file, Some("muster-agent:1")).unwrap();
            assert!(objects.len() > 2, "{file}: {}", objects.len());
        }
        let objects = rendered("pi.yaml", Some("muster-agent:1")).unwrap();
        let gated = |object: &Value| object.to_string().contains("muster-agent:1");
        assert!(objects.iter().any(gated), "the gate is missing");
    }

    #[test]
    fn m02_a_job_that_becomes_nothing_is_an_error_that_says_why() {
        let error = rendered("pi-without-ssh.yaml", None).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("becomes no object") && text.contains("agent"),
            "{text}"
        );
    }
}
