//! `muster describe JOB`: the job, its pods and what happened to it, newest last.

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;

use crate::args::{Global, NameArgs};
use crate::backend::{Backend, event_time};
use crate::view::{JobView, PodView};
use crate::{attempt, out, table};

pub(crate) async fn run(global: &Global, args: &NameArgs) -> Result<u8> {
    let backend = Backend::connect(global, Some(&args.name)).await?;
    let job = backend.job(&args.name).await?;
    let job = JobView(&job);
    let (pods, events) = (backend.pods(job).await?, backend.events(job).await?);
    let attempt = attempt::running(&backend, job, &pods).await;
    out::data(&(facts(job, attempt) + &pod_table(&pods) + &event_table(&events)));
    Ok(0)
}

fn facts(job: JobView<'_>, attempt: Option<String>) -> String {
    let now = Timestamp::now();
    let ranks = job.ranks().map(|ranks| ranks.to_string());
    let rows = [
        ("Name", job.name().to_owned()),
        ("Namespace", job.namespace().to_owned()),
        ("Dialect", job.dialect()),
        ("State", job.phase().to_owned()),
        ("Reason", job.word("reason").to_owned()),
        ("Message", job.word("message").to_owned()),
        ("Attempt", attempt.unwrap_or_default()),
        ("Ready", job.word("ready").to_owned()),
        ("Ranks", ranks.unwrap_or_default()),
        ("Started", job.time("startTime").to_owned()),
        ("Finished", job.time("completionTime").to_owned()),
        ("Age", table::since(job.created(), now)),
    ];
    rows.iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{:11}{}\n", format!("{name}:"), table::one_line(value)))
        .collect()
}

fn pod_table(pods: &[Value]) -> String {
    if pods.is_empty() {
        return "\nNo pods.\n".to_owned();
    }
    let heads = ["POD", "STATE", "NODE", "EXIT", "MESSAGE"];
    let row = |pod: &Value| {
        let pod = PodView(pod);
        let end = pod.ended();
        let message = pod.waiting().map(|(_, message)| message);
        vec![
            pod.name().to_owned(),
            pod.state(),
            pod.node().to_owned(),
            end.as_ref()
                .map(|end| end.code.to_string())
                .unwrap_or_default(),
            message.or(end.map(|end| end.message)).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = pods.iter().map(row).collect();
    "\n".to_owned() + &table::shown(&heads, &rows)
}

fn event_table(events: &[Value]) -> String {
    if events.is_empty() {
        return String::new();
    }
    let now = Timestamp::now();
    let row = |event: &Value| {
        let text = |field: &str| event[field].as_str().unwrap_or("").to_owned();
        vec![
            table::since(event_time(event), now),
            text("type"),
            text("reason"),
            text("message"),
        ]
    };
    let rows: Vec<Vec<String>> = events.iter().map(row).collect();
    "\n".to_owned() + &table::shown(&["AGO", "TYPE", "REASON", "MESSAGE"], &rows)
}
