//! Hub to wire for bdap, whose own controller never wrote a status: how many workers are Ready, the
//! phase of the launcher, and conditions as Kubeflow's clients know them. A new launcher withdraws what
//! the status said of the one before. Decides nothing about the job.

use jiff::Timestamp;
use planner::observed::PodPhase;
use planner::{Recorded, Status, Verdict};
use serde_json::Value;

use super::{DIALECT, KIND};
use crate::conditions::{CREATED, Conditions, FAILED, RUNNING, SUCCEEDED, text};
use crate::status_draft::{Reporter, StatusDraft, replica_statuses};
use crate::{Finding, Report, muster_history, time};

/// What clients of this API call a launcher that does not exist yet.
const WAITING_WORKERS: &str = "WaitingWorkers";

/// What the stored status records of the job. No end is recorded: the next launcher may be on its way.
pub(super) fn recorded(job: &Value) -> Recorded {
    let status = job.get("status").unwrap_or(&Value::Null);
    Recorded {
        seen: !Conditions::of(status).is_empty(),
        started_at: time::read(text(status, "startTime")),
        history: muster_history::read(status.get("muster").unwrap_or(&Value::Null)),
        ..Recorded::default()
    }
}

/// The status to write, and the events to announce.
pub(super) fn report(job: &Value, finding: &Finding<'_>, now: Timestamp) -> Report {
    let reporter = Reporter {
        dialect: DIALECT.name,
        recorded,
        has_generation: true,
        counters: &["replicaStatuses", "readyWorkers"],
        project,
        refuse: |draft, _| draft.announce_obstacle(|reason| reason),
        obstacle_reason: |reason| reason,
    };
    reporter.report(job, finding, now)
}

fn project(draft: &mut StatusDraft<'_>, planned: &Status) {
    if draft.conditions.is_empty() {
        create(draft);
    }
    draft.write_start_time(planned.started_at);
    conclude(draft, planned);
    if planned.running {
        let message = draft.sentence(KIND, "is running.");
        draft.set_and_announce(RUNNING, true, "MPIJobRunning", &message);
    } else if draft.conditions.holds(RUNNING) && planned.outcome.is_none() {
        let message = "launcher and workers do not all run";
        draft.set(RUNNING, false, "MPIJobWaiting", message);
    }
    draft.write_conditions();
    draft.insert("replicaStatuses", replica_statuses(planned));
    draft.insert("readyWorkers", planned.ready);
    draft.insert("workers", planned.wanted);
    let launcher = launcher_phase(draft.name(), planned);
    draft.insert("launcher", launcher);
}

fn create(draft: &mut StatusDraft<'_>) {
    let message = draft.sentence(KIND, "is created.");
    draft.set_and_announce(CREATED, true, "MPIJobCreated", &message);
    let launcher = draft.text("/spec/launcherTemplate/spec/restartPolicy");
    let worker = draft.text("/spec/workerTemplate/spec/restartPolicy");
    let account = ["serviceAccountName", "serviceAccount"]
        .map(|field| draft.text(&format!("/spec/launcherTemplate/spec/{field}")));
    let account = account.into_iter().find(|name| !name.is_empty());
    let account = account.map(str::to_owned);
    let (is_always, worker) = (["", "Always"].contains(&launcher), worker.to_owned());
    if is_always {
        draft.warn(
            "LauncherNeverEnds",
            "spec.launcherTemplate.spec.restartPolicy: with Always, also if not set, the launcher \
             is restarted forever; write Never or OnFailure for a program that ends",
        );
    }
    if !["", "Always"].contains(&worker.as_str()) {
        let message = format!(
            "spec.workerTemplate.spec.restartPolicy: {worker} is ignored: workers are always \
             started again"
        );
        draft.warn("SetPodTemplateRestartPolicy", &message);
    }
    if let Some(account) = account {
        let message = format!(
            "spec.launcherTemplate.spec.serviceAccountName: {account} is ignored: the launcher runs \
             as {}-launcher, because only an account of the job's own may enter its workers",
            draft.name()
        );
        draft.warn("SetPodTemplateServiceAccount", &message);
    }
}

/// Writes the launcher's end, or withdraws it when there is another launcher.
fn conclude(draft: &mut StatusDraft<'_>, planned: &Status) {
    let Some(outcome) = &planned.outcome else {
        draft.conditions.withdraw(SUCCEEDED);
        draft.conditions.withdraw(FAILED);
        draft.status.remove("completionTime");
        return;
    };
    draft.conditions.withdraw(RUNNING);
    let is_new = match &outcome.verdict {
        Verdict::Succeeded => {
            let message = draft.sentence(KIND, "successfully completed.");
            draft.conditions.withdraw(FAILED);
            draft.set_and_announce(SUCCEEDED, true, "MPIJobSucceeded", &message)
        }
        Verdict::Failed { reason, message } => {
            draft.conditions.withdraw(SUCCEEDED);
            let is_new = draft.set(FAILED, true, reason, message);
            if is_new {
                draft.warn(reason, message);
            }
            is_new
        }
    };
    if is_new || !draft.status.contains_key("completionTime") {
        draft.insert("completionTime", time::written(outcome.at));
    }
}

/// The phase of the launcher's pod, which clients otherwise read from the pod itself.
fn launcher_phase(job: &str, planned: &Status) -> &'static str {
    let name = format!("{job}-launcher");
    let launcher = planned.pods.iter().find(|pod| pod.name == name);
    match launcher.map(|pod| pod.phase) {
        None => WAITING_WORKERS,
        Some(PodPhase::Pending) => "Pending",
        Some(PodPhase::Running) => "Running",
        Some(PodPhase::Succeeded) => "Succeeded",
        Some(PodPhase::Failed) => "Failed",
        Some(PodPhase::Unknown) => "Unknown",
    }
}
