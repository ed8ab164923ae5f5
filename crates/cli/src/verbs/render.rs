//! `muster render FILE`: every object that a job becomes on an empty cluster, under an operator with the flags
//! of `deploy/`. Knows nothing of what those objects hold.

use anyhow::Result;
use planner::site::Site;
use serde_json::{Value, json};

use crate::args::{Global, Output, RenderArgs};
use crate::exit::{self, Failure};
use crate::manifest::{self, Manifest};
use crate::{children, lint, out, yaml};

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
            rendered.extend(children::of(job, &site)?);
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
