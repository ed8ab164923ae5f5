//! `muster submit FILE`: gives its objects to a cluster, and follows the job if asked.

use anyhow::Result;
use serde_json::Value;

use crate::args::{Global, Output, SubmitArgs};
use crate::follow::Follower;
use crate::manifest;
use crate::site::Site;
use crate::verbs::render::{checked, typed_name};
use crate::{out, yaml};

pub(crate) async fn run(global: &Global, args: &SubmitArgs) -> Result<u8> {
    let manifest = manifest::read(args.file.name())?;
    let objects = checked(&manifest)?;
    let dry = args.dry_run.as_deref();
    if dry == Some("client") {
        for object in &objects {
            tell(object, "created (dry run)", args.output);
        }
        return Ok(0);
    }
    let site = Site::connect(global, None).await?;
    let mut job = None;
    for object in &objects {
        let created = site.create(object, dry.is_some()).await?;
        let verb = if dry.is_some() {
            "created (server dry run)"
        } else {
            "created"
        };
        tell(&created, verb, args.output);
        if manifest::api(object).is_some() {
            job = Some(typed_name(&created));
        }
    }
    match job {
        Some(name) if args.wait && dry.is_none() => {
            let follower = Follower::new(global, &site);
            let verdict = if args.logs {
                let over = follower.until_over_with_logs(&name);
                follower.attended(over, &name).await?
            } else {
                follower.attended(follower.until_over(&name), &name).await?
            };
            Ok(verdict.code)
        }
        _ => Ok(0),
    }
}

fn tell(object: &Value, verb: &str, output: Option<Output>) {
    let name = typed_name(object);
    out::data(&match output {
        Some(Output::Json) => format!("{object:#}\n"),
        Some(Output::Yaml) => yaml::text(object),
        Some(Output::Name) => format!("{name}\n"),
        Some(Output::Wide) | None => format!("{name} {verb}\n"),
    });
}
