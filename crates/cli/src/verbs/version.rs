//! `muster version`.

use anyhow::Result;
use serde_json::json;

use crate::args::{Output, VersionArgs};
use crate::{manifest, out, yaml};

pub(crate) fn run(args: &VersionArgs) -> Result<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let commit = option_env!("MUSTER_GIT_SHA").unwrap_or("unknown");
    let dialects: Vec<String> = manifest::apis()
        .iter()
        .map(|dialect| format!("{} {}", manifest::api_version(dialect), dialect.kind))
        .collect();
    let facts = json!({
        "schema": "muster/v1",
        "version": version,
        "commit": commit,
        "dialects": dialects,
    });
    out::data(&match args.output {
        Some(Output::Json) => format!("{facts:#}\n"),
        Some(Output::Yaml) => yaml::text(&facts),
        Some(Output::Name | Output::Wide) | None => {
            format!(
                "muster {version} (commit {commit})\ndialects: {}\n",
                dialects.join(", ")
            )
        }
    });
    Ok(0)
}
