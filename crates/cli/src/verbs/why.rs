//! `muster why JOB`: why it waits, or why it failed, and what to do. Tells "not yet" from "never".

use anyhow::Result;
use contract::Reason;
use jiff::Timestamp;
use serde_json::Value;

use crate::args::{Global, NameArgs};
use crate::backend::Backend;
use crate::follow;
use crate::view::{JobView, PodView, workers};
use crate::{out, table, verdict};

/// More workers than this are counted, not listed.
const LISTED_MAX: usize = 8;

pub(crate) async fn run(global: &Global, args: &NameArgs) -> Result<u8> {
    let backend = Backend::connect(global, Some(&args.name)).await?;
    let job = backend.job(&args.name).await?;
    let job = JobView(&job);
    let pods = backend.pods(job).await?;
    let text = match job.phase() {
        "Failed" => {
            let last = follow::last_lines(&backend, &pods).await;
            verdict::failure(job, &pods, &last)
        }
        "Succeeded" => format!("{} succeeded{}.\n", job.name(), took(job)),
        "Running" => format!(
            "{} is RUNNING since {}: {} workers are ready.\n",
            job.name(),
            table::since(job.time("startTime"), Timestamp::now()),
            job.word("ready")
        ),
        _ => waiting(job, &pods),
    };
    out::data(&text);
    Ok(0)
}

fn took(job: JobView<'_>) -> String {
    job.seconds()
        .map_or_else(String::new, |secs| format!(" in {secs:.1}s"))
}

fn waiting(job: JobView<'_>, pods: &[Value]) -> String {
    let name = job.name();
    let age = table::since(job.created(), Timestamp::now());
    if job.phase().is_empty() {
        return format!(
            "{name} was made {age} ago, and no operator has looked at it yet.\n  do       check \
             that muster-operator runs: kubectl get pods -A -l app=mpi-operator\n"
        );
    }
    if job.is_suspended() {
        return format!(
            "{name} is SUSPENDED: it holds no pods until somebody resumes it.\n  do       kubectl \
             patch mpijob {name} --type merge --patch '{{\"spec\":{{\"runPolicy\":\
             {{\"suspend\":false}}}}}}'\n"
        );
    }
    let mut text = format!("{name} is WAITING since {age}: {}\n", sentence(job));
    let late: Vec<PodView<'_>> = workers(pods)
        .into_iter()
        .filter(|pod| !pod.is_ready())
        .collect();
    for pod in late.iter().take(LISTED_MAX) {
        let message = pod
            .waiting()
            .map(|(_, message)| message)
            .unwrap_or_default();
        text += &format!(
            "  {}  {}  {}  {message}\n",
            pod.name(),
            pod.state(),
            pod.node()
        );
    }
    if late.len() > LISTED_MAX {
        text += &format!("  and {} more\n", late.len() - LISTED_MAX);
    }
    let reason = job.word("reason");
    if Reason::from_text(reason).is_some_and(|reason| !reason.is_retryable()) {
        let (advice, command) = verdict::advice(reason, name);
        text +=
            &format!("This does not pass by itself.\n  do       {advice}\n           {command}\n");
    } else {
        text += "Nothing is wrong yet. Waiting costs no retry.\n";
    }
    text
}

fn sentence(job: JobView<'_>) -> String {
    match (job.word("message"), job.word("reason")) {
        ("", "") => format!("{} workers are ready.", job.word("ready")),
        ("", reason) => reason.to_owned(),
        (message, _) => message.to_owned(),
    }
}
