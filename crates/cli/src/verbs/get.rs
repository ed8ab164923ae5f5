//! `muster get`: jobs of every dialect in one table, with the message of their status.

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{GetArgs, Global, Output};
use crate::backend::Backend;
use crate::manifest::typed_name;
use crate::view::JobView;
use crate::{out, table, yaml};

pub(crate) async fn run(global: &Global, args: &GetArgs) -> Result<u8> {
    let backend = Backend::connect(global, args.name.as_deref()).await?;
    let jobs = match &args.name {
        Some(name) => vec![backend.job(name).await?],
        None => backend.jobs(args.all_namespaces, &args.selector).await?,
    };
    if jobs.is_empty() && matches!(args.output, None | Some(Output::Wide)) {
        out::note("No jobs found.\n");
        return Ok(0);
    }
    let single = args.name.is_some();
    out::data(&match args.output {
        Some(Output::Name) => jobs.iter().map(|job| typed_name(job) + "\n").collect(),
        Some(Output::Json) => format!("{:#}\n", whole(&jobs, single)),
        Some(Output::Yaml) => yaml::text(&whole(&jobs, single)),
        Some(Output::Wide) => rows(&jobs, args.all_namespaces, true),
        None => rows(&jobs, args.all_namespaces, false),
    });
    Ok(0)
}

fn whole(jobs: &[Value], single: bool) -> Value {
    match (jobs, single) {
        ([job], true) => job.clone(),
        _ => json!({"apiVersion": "v1", "kind": "List", "items": jobs}),
    }
}

fn rows(jobs: &[Value], all: bool, wide: bool) -> String {
    let now = Timestamp::now();
    let mut heads = vec!["NAME", "DIALECT", "STATE", "READY", "RANKS", "TIME", "AGE"];
    if all {
        heads.insert(0, "NAMESPACE");
    }
    if wide {
        heads.push("REASON");
    }
    heads.push("CONTEXT");
    let row = |job: &Value| {
        let job = JobView(job);
        let took = match job.seconds() {
            Some(secs) => table::run_time(secs),
            None => table::since(job.time("startTime"), now),
        };
        let mut row = vec![
            job.name().to_owned(),
            job.dialect(),
            job.phase().to_owned(),
            job.word("ready").to_owned(),
            job.ranks()
                .map(|ranks| ranks.to_string())
                .unwrap_or_default(),
            took,
            table::since(job.created(), now),
        ];
        if all {
            row.insert(0, job.namespace().to_owned());
        }
        if wide {
            row.push(job.word("reason").to_owned());
        }
        row.push(context(job));
        row
    };
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    table::shown(&heads, &rows)
}

/// The message, or the reason where there is none.
fn context(job: JobView<'_>) -> String {
    let message = job.word("message").lines().next().unwrap_or("").to_owned();
    match (job.word("reason"), message) {
        ("", message) => message,
        (reason, message) if message.is_empty() => reason.to_owned(),
        (_, message) => message,
    }
}
