//! `muster render FILE`: every object that a job becomes, as the planner would make it on an empty
//! cluster. Knows nothing of what those objects hold.

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
            rendered.extend(children(job, &site));
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

/// What the planner creates, step by step. A job that waits or is suspended is shown as if it did
/// not and was not: the question is what it becomes.
fn children(mut job: Job, site: &Site) -> Vec<Value> {
    job.launcher.start = LauncherStart::AtOnce;
    job.lifecycle.suspended = false;
    let observed = Observed::alone(job, site.clone(), Timestamp::UNIX_EPOCH);
    let steps = planner::plan(&observed).steps;
    // On an empty cluster there is nothing to change or delete.
    let created = steps.iter().flatten().flat_map(Action::objects);
    created.map(|object| object.body).collect()
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
