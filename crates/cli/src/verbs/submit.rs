//! `muster submit FILE`: creates its objects on a cluster, and follows the job with --wait.

use anyhow::Result;
use serde_json::Value;

use crate::args::{Global, Output, SubmitArgs};
use crate::backend::Backend;
use crate::exit::Failure;
use crate::follow::Follower;
use crate::manifest::{self, typed_name};
use crate::verbs::render::checked;
use crate::{out, yaml};

pub(crate) async fn run(global: &Global, args: &SubmitArgs) -> Result<u8> {
    let manifest = manifest::read(args.file.name())?;
    let objects = checked(&manifest)?;
    for object in &objects {
        agree_on_namespace(global, object)?;
    }
    let dry = args.dry_run.as_deref();
    if dry == Some("client") {
        for object in &objects {
            print(object, "created (dry run)", args.output);
        }
        return Ok(0);
    }
    let backend = Backend::connect(global, None).await?;
    let mut job = None;
    for object in &objects {
        let created = backend.create(object, dry.is_some()).await?;
        let verb = if dry.is_some() {
            "created (server dry run)"
        } else {
            "created"
        };
        print(&created, verb, args.output);
        if manifest::api(object).is_some() {
            job = Some(created);
        }
    }
    match job {
        Some(job) if args.wait && dry.is_none() => {
            let name = typed_name(&job);
            let mut global = global.clone();
            if let Some(namespace) = manifest::namespace(&job) {
                global.namespace = Some(namespace.to_owned());
            }
            let backend = Backend::connect(&global, None).await?;
            let follower = Follower::new(&global, &backend);
            let verdict = if args.logs {
                let finished = follower.until_finished_with_logs(&name);
                follower.interruptible(finished, &name).await?
            } else {
                follower
                    .interruptible(follower.until_finished(&name), &name)
                    .await?
            };
            Ok(verdict.code)
        }
        _ => Ok(0),
    }
}

/// As kubectl: a flag that says otherwise than the file is a mistake in one of them.
fn agree_on_namespace(global: &Global, object: &Value) -> Result<()> {
    match (&global.namespace, manifest::namespace(object)) {
        (Some(flag), Some(namespace)) if flag != namespace => Err(Failure::usage(format!(
            "{} has metadata.namespace {namespace}, and --namespace says {flag}: leave one of them out",
            typed_name(object)
        ))
        .into()),
        _ => Ok(()),
    }
}

fn print(object: &Value, verb: &str, output: Option<Output>) {
    let name = typed_name(object);
    out::data(&match output {
        Some(Output::Json) => format!("{object:#}\n"),
        Some(Output::Yaml) => yaml::text(object),
        Some(Output::Name) => format!("{name}\n"),
        Some(Output::Wide) | None => format!("{name} {verb}\n"),
    });
}
