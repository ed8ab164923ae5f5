//! `muster why JOB`: why it waits, or why it failed, and what to do. Prints the reason and message of
//! `status.muster`, and decides whether waiting longer can help.

mod timeline;

use anyhow::Result;
use contract::Reason;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::Global;
use crate::args::why::WhyArgs;
use crate::backend::Backend;
use crate::follow;
use crate::manifest::typed_name;
use crate::view::{JobView, PodView, workers};
use crate::{attempt, manifest, out, verdict};

/// More workers than this are counted, not listed.
const LISTED_MAX: usize = 8;

pub(crate) async fn run(global: &Global, args: &WhyArgs) -> Result<u8> {
    let name = &args.job.name;
    let backend = Backend::connect(global, Some(name)).await?;
    let job = backend.job(name).await?;
    let job = JobView(&job);
    if args.timeline {
        out::data(&timeline::of(&backend, job, args.output.is_some()).await?);
        return Ok(0);
    }
    let pods = backend.pods(job).await?;
    let address = backend.address(job.name());
    let sentence = verdict::sentence(job, &pods, Timestamp::now());
    let text = match job.phase() {
        "Failed" => {
            let last = follow::last_lines(&backend, &pods).await;
            verdict::failure(job, &address, &pods, &last)
        }
        "Succeeded" => format!("{sentence}.\n"),
        "Running" => {
            let attempt = attempt::running(&backend, job, &pods).await;
            let attempt = attempt.map(|attempt| format!("This is {attempt}\n"));
            format!("{sentence}.\n{}", attempt.unwrap_or_default())
        }
        _ => waiting(job, &sentence, &address, &pods),
    };
    out::data(&text);
    Ok(0)
}

fn waiting(job: JobView<'_>, sentence: &str, address: &str, pods: &[Value]) -> String {
    if job.phase().is_empty() {
        return format!(
            "{sentence}.\n  do       check that muster-operator runs: \
             kubectl get pods -A -l 'app.kubernetes.io/name in (muster,mpi-operator)'\n"
        );
    }
    if job.phase() == "Suspended" {
        return suspended(job, sentence);
    }
    let mut text = format!("{sentence}\n");
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
    let known = Reason::from_text(reason);
    let waits_alone = known.is_none_or(Reason::is_retryable);
    if known.is_none_or(|reason| reason.fault().is_none()) {
        return text + "Nothing is wrong yet. Waiting does not use up retries.\n";
    }
    let (advice, command) = verdict::advice(reason, address);
    text += if waits_alone {
        "It goes on by itself when that is over.\n"
    } else {
        "It will not start by itself.\n"
    };
    text += &format!("  do       {advice}\n           {command}\n");
    text
}

fn suspended(job: JobView<'_>, sentence: &str) -> String {
    let mut text = format!("{sentence}.\n");
    let field = manifest::dialect(job.0).and_then(|dialect| dialect.suspend_field);
    if let Some(field) = field {
        let patch = field
            .rsplit('.')
            .fold(json!(false), |patch, step| json!({step: patch}));
        text += &format!(
            "  do       kubectl -n {} patch {} --type merge --patch '{patch}'\n",
            job.namespace(),
            typed_name(job.0)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_can_do_something_about_a_waiting_job_learns_what() {
        for (reason, prospect, has_advice) in [
            ("WaitingForWorkers", "Nothing is wrong yet", false),
            ("PullingImage", "It goes on by itself when", true),
            ("QuotaExceeded", "It goes on by itself when", true),
            ("PodSecurityDenied", "It will not start by itself", true),
            ("ReasonOfANewerOperator", "Nothing is wrong yet", false),
        ] {
            let job = json!({
                "metadata": {"name": "pi"},
                "status": {"muster": {"phase": "Pending", "reason": reason, "message": "so it is"}},
            });
            let text = waiting(JobView(&job), "pi waits", "pi --namespace lab", &[]);
            assert!(text.contains(prospect), "{text}");
            let command = "           muster describe pi --namespace lab\n";
            assert_eq!(text.ends_with(command), has_advice, "{text}");
        }
    }
}
