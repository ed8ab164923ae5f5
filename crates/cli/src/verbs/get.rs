//! `muster get`: jobs of every dialect in one table, with the message of their status.

mod live;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{GetArgs, Global, Output};
use crate::backend::Backend;
use crate::exit::Failure;
use crate::manifest::typed_name;
use crate::view::JobView;
use crate::{out, table, yaml};

pub(crate) async fn run(global: &Global, args: &GetArgs) -> Result<u8> {
    let backend = Backend::connect(global, args.name.as_deref()).await?;
    let columns = Columns {
        all: args.all_namespaces,
        wide: matches!(args.output, Some(Output::Wide)),
    };
    if args.watch {
        if !matches!(args.output, None | Some(Output::Wide)) {
            return Err(
                Failure::usage("--watch prints a table: leave out --output, or use wide").into(),
            );
        }
        if !backend.is_recorded() {
            return live::run(&backend, args, columns).await;
        }
        out::note("Nothing runs on this machine now; these are records, which do not change.\n");
    }
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
        Some(Output::Wide) | None => {
            let jobs: Vec<&Value> = jobs.iter().collect();
            columns.table(&jobs, Timestamp::now())
        }
    });
    Ok(0)
}

fn whole(jobs: &[Value], single: bool) -> Value {
    match (jobs, single) {
        ([job], true) => job.clone(),
        _ => json!({"apiVersion": "v1", "kind": "List", "items": jobs}),
    }
}

/// Which columns there are.
#[derive(Clone, Copy, Debug)]
struct Columns {
    /// Jobs of all namespaces.
    all: bool,
    wide: bool,
}

impl Columns {
    fn table(self, jobs: &[&Value], now: Timestamp) -> String {
        let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, self, now)).collect();
        table::shown(&heads(self), &rows)
    }

    fn set_state(self, cells: &mut [String], state: &str) {
        state.clone_into(&mut cells[2 + usize::from(self.all)]);
    }

    /// A row without what changes from second to second.
    fn without_times(self, cells: &[String]) -> Vec<String> {
        let times = 5 + usize::from(self.all);
        let mut cells = cells.to_vec();
        cells.drain(times..times + 2);
        cells
    }
}

fn heads(columns: Columns) -> Vec<&'static str> {
    let mut heads = vec!["NAME", "DIALECT", "STATE", "READY", "RANKS", "TIME", "AGE"];
    if columns.all {
        heads.insert(0, "NAMESPACE");
    }
    if columns.wide {
        heads.push("REASON");
    }
    heads.push("CONTEXT");
    heads
}

fn row(job: &Value, columns: Columns, now: Timestamp) -> Vec<String> {
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
    if columns.all {
        row.insert(0, job.namespace().to_owned());
    }
    if columns.wide {
        row.push(job.word("reason").to_owned());
    }
    row.push(context(job));
    row
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
