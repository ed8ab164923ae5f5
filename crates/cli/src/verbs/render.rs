//! `muster render FILE`: every object that a job becomes on an empty cluster, under an operator with the flags
//! of `deploy/`. Knows nothing of what those objects hold.

use anyhow::Result;
use jiff::Timestamp;
use planner::job::LauncherStart;
use planner::site::Site;
use planner::{Action, Job, Observed};
use serde_json::{Value, json};

use crate::args::{Global, Output, RenderArgs};
use crate::exit::{self, Failure};
use crate::manifest::{self, Manifest};
use crate::{lint, out, yaml};

pub(crate) fn run(global: &Global, args: &RenderArgs) -> Result<u8> {
    let manifest = manifest::read(args.file.name())?;
    let objects = checked(&manifest)?;
    let site = Site {
        cluster_domain: args.cluster_domain.clone(),
        agent_image: Some(args.agent_image.clone()).filter(|image| !image.is_empty()),
        ..Site::default()
    };
    let mut rendered = Vec::new();
    for mut object in objects {
        if manifest::api(&object).is_none() {
            rendered.push(object);
            continue;
        }
        let namespace = global.namespace.as_deref();
        let namespace = namespace
            .or(manifest::namespace(&object))
            .unwrap_or("default");
        object["metadata"]["namespace"] = namespace.into();
        if let Some(Ok(job)) = manifest::lower(&object) {
            rendered.extend(children(job, &site)?);
        }
    }
    out::data(&shown(&rendered, args.output));
    Ok(0)
}

/// The objects of a file, or everything that is wrong with it.
pub(crate) fn checked(manifest: &Manifest) -> Result<Vec<Value>> {
    let findings = lint::check(manifest);
    out::note(&lint::as_text(manifest, &findings));
    if lint::has_errors(&findings) {
        return Err(Failure::new(exit::FAILED, ""));
    }
    Ok(manifest.objects())
}

/// In the place of letters that the operator draws.
const RANDOM: &str = "random";

/// What the planner creates, step by step. A job that waits or is suspended is shown as if it did
/// not and was not: the question is what it becomes.
fn children(mut job: Job, site: &Site) -> Result<Vec<Value>> {
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

fn shown(objects: &[Value], output: Output) -> String {
    match output {
        Output::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            format!("{list:#}\n")
        }
        Output::Name => objects
            .iter()
            .map(|object| manifest::typed_name(object) + "\n")
            .collect(),
        Output::Yaml | Output::Wide => {
            let texts: Vec<String> = objects.iter().map(yaml::text).collect();
            texts.join("---\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(file: &str, agent_image: Option<&str>) -> Result<Vec<Value>> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
        let site = Site {
            agent_image: agent_image.map(str::to_owned),
            ..Site::default()
        };
        let manifest = manifest::read(&format!("{root}{file}"))?;
        let jobs = checked(&manifest)?;
        let mut jobs = jobs.iter().filter_map(manifest::lower);
        children(jobs.next().unwrap().unwrap(), &site)
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
