//! Explains a job: what it waits for, as a value and in words that name the object and the number, and
//! everything else that its status reports. Decides no action.

use contract::Reason;
use jiff::Timestamp;

use super::blocked::Block;
use super::situation::Situation;
use super::{gang, history, identity, pods, retry, verdict};
use crate::action::Kind;
use crate::job::{Access, WorkerPods, Workers};
use crate::observed::{Observed, Pod, PodPhase, Refusal, Waiting};
use crate::phase::Phase;
use crate::recorded::Verdict;
use crate::status::{Count, PodNote, Status};
use crate::text::printable;
use crate::waiting_on::WaitingOn;

/// What the job waits for, the reason in one word, and the same in a sentence.
type Explanation = (WaitingOn, Option<Reason>, String);

/// What the job waits for, and what is true of it.
pub(super) fn status(situation: &Situation<'_>) -> (WaitingOn, Status) {
    let observed = situation.observed;
    let (waiting_on, reason, message) = explanation(situation);
    let suspended = observed.job.lifecycle.suspended;
    let status = Status {
        phase: situation.phase,
        reason,
        message: printable(&message).into_owned(),
        transport: observed.job.transport(&observed.site),
        suspended,
        running: situation.phase == Phase::Running && pods::launcher_exists(observed),
        started_at: started_at(situation),
        launcher: launcher(situation),
        workers: workers(situation),
        outcome: situation.outcome.clone(),
        ready: situation.ready,
        wanted: situation.wanted,
        replacements: match situation.outcome {
            Some(_) => observed.recorded.replacements.clone(),
            None => retry::count(observed),
        },
        keys: identity::record(observed, situation.outcome.is_some()),
        gang: gang::found(observed),
        history: history::of(situation, started_at(situation)),
        pods: notes(observed),
    };
    (waiting_on, status)
}

/// An operator that could not write the status may hear of the start and of the end at once.
fn started_at(situation: &Situation<'_>) -> Option<Timestamp> {
    let Observed { recorded, job, .. } = situation.observed;
    let ended = situation.outcome.as_ref().map(|outcome| outcome.at);
    let latest = situation.observed.now.min(ended.unwrap_or(Timestamp::MAX));
    match (job.lifecycle.suspended, recorded.suspended) {
        (true, _) => recorded.started_at,
        (false, true) => Some(latest),
        (false, false) => Some(recorded.started_at.unwrap_or(latest)),
    }
}

fn launcher(situation: &Situation<'_>) -> Option<Count> {
    let (observed, outcome) = (situation.observed, situation.outcome.as_ref());
    let succeeded = outcome.is_some_and(|outcome| outcome.verdict == Verdict::Succeeded);
    pods::launcher_exists(observed).then(|| Count {
        active: match outcome {
            Some(_) => 0,
            None => pods::running_launchers(observed),
        },
        succeeded: succeeded.into(),
        failed: pods::failed_launchers(observed),
    })
}

fn workers(situation: &Situation<'_>) -> Count {
    let (observed, job) = (situation.observed, &situation.observed.job);
    let over = situation.outcome.is_some() && !job.outlives_launcher();
    if over || job.lifecycle.suspended {
        return Count::default();
    }
    Count {
        active: situation.running,
        succeeded: pods::workers_in(observed, PodPhase::Succeeded),
        failed: pods::workers_in(observed, PodPhase::Failed),
    }
}

fn notes(observed: &Observed) -> Vec<PodNote> {
    if !observed.job.reports_pods {
        return Vec::new();
    }
    let mut workers: Vec<&Pod> = pods::workers(observed).collect();
    workers.sort_by_key(|pod| observed.job.worker_index(&pod.name));
    let pods = observed.launcher_pods.iter().chain(workers);
    pods.map(|pod| PodNote {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        phase: pod.phase,
        restarts: pod.restarts,
        exit_code: pod.exit.as_ref().map(|exit| exit.code),
    })
    .collect()
}

fn explanation(situation: &Situation<'_>) -> Explanation {
    let observed = situation.observed;
    let plainly = |waiting_on, reason, message: &str| (waiting_on, reason, message.to_owned());
    match situation.phase {
        Phase::Finished => ended(situation, WaitingOn::Nothing),
        Phase::Finishing if observed.recorded.outcome.is_none() => {
            ended(situation, WaitingOn::Record)
        }
        Phase::Finishing => ended(situation, clean_up(situation)),
        Phase::LauncherExited => ended(situation, WaitingOn::AnotherLauncher),
        Phase::Deleting => plainly(WaitingOn::Departures, None, "the job is being deleted"),
        Phase::Suspended => {
            let own_launcher = observed.job.launcher.kind.is_pod();
            let has_launcher = own_launcher && !observed.launcher_pods.is_empty();
            let waiting_on = match observed.workers.is_empty() && !has_launcher {
                true => WaitingOn::Resume,
                false => WaitingOn::Departures,
            };
            let message = format!("{} suspended", observed.job.owner.kind);
            (waiting_on, Some(Reason::Suspended), message)
        }
        // The two phases differ in whether something blocks the job.
        Phase::Blocked | Phase::Preparing => match &situation.block {
            Some(block) => blocked(situation, block),
            None => plainly(
                WaitingOn::Objects,
                Some(Reason::Starting),
                "its objects are being created",
            ),
        },
        Phase::Gathering => gathering(situation),
        Phase::Launching => launching(situation),
        Phase::Running => plainly(WaitingOn::Program, None, "launcher and workers run"),
    }
}

fn ended(situation: &Situation<'_>, waiting_on: WaitingOn) -> Explanation {
    match situation.outcome.as_ref().map(|outcome| &outcome.verdict) {
        Some(Verdict::Failed { reason, message }) => {
            let known = verdict::reason(situation.observed, reason);
            (waiting_on, Some(known), message.clone())
        }
        Some(Verdict::Succeeded) | None => {
            let message = match verdict::recovery_words(situation.observed) {
                Some(words) => format!("the launcher ended with 0: {words}"),
                None => "the launcher ended with 0".to_owned(),
            };
            (waiting_on, None, message)
        }
    }
}

/// What is left to clean up is being deleted, or was refused.
fn clean_up(situation: &Situation<'_>) -> WaitingOn {
    match situation.observed.refused.first() {
        Some(refusal) => acceptance(refusal),
        None => WaitingOn::Departures,
    }
}

fn acceptance(refusal: &Refusal) -> WaitingOn {
    WaitingOn::Acceptance {
        kind: refusal.kind.clone(),
        name: refusal.name.clone(),
    }
}

fn blocked(situation: &Situation<'_>, block: &Block<'_>) -> Explanation {
    let job = &situation.observed.job;
    match block {
        Block::Name { kind, name } => {
            let message = format!(
                "Resource \"{name}\" of Kind \"{}\" already exists and is not managed by {}",
                kind.as_str(),
                job.owner.kind
            );
            let (kind, name) = (kind.clone(), name.clone());
            (
                WaitingOn::Name { kind, name },
                Some(Reason::NameTaken),
                message,
            )
        }
        Block::Namespace => {
            let message = format!(
                "jobs in {}, the operator's own namespace, are refused, because their pods could use the \
                 operator's account: {}",
                job.owner.namespace,
                Reason::NamespaceNotAllowed.advice()
            );
            let reason = Some(Reason::NamespaceNotAllowed);
            (WaitingOn::Namespace, reason, message)
        }
        Block::Refused(refusal) => refused(situation, refusal),
        Block::TooLarge(message) => (WaitingOn::Edit, Some(Reason::TooLarge), message.clone()),
        Block::NoAgent => {
            let what = match &job.workers {
                _ if job.queue.is_some() => "a job in a queue".to_owned(),
                Workers::Pods(WorkerPods {
                    access: Access::Provided(_),
                    ..
                }) => "the workers' sidecar".to_owned(),
                Workers::Pods(_) | Workers::StatefulSet(_) => {
                    format!("transport {}", job.transport(&situation.observed.site))
                }
            };
            let message =
                format!("{what} needs the agent's image: start the operator with --agent-image");
            (WaitingOn::Agent, Some(Reason::Invalid), message)
        }
    }
}

fn refused(situation: &Situation<'_>, refusal: &Refusal) -> Explanation {
    let observed = situation.observed;
    let said = &refusal.message;
    let reason = match refusal.code {
        403 if said.contains("exceeded quota") => Reason::QuotaExceeded,
        403 if said.contains("violates PodSecurity") => Reason::PodSecurityDenied,
        400 | 422 => Reason::Invalid,
        404 if matches!(refusal.kind, Kind::PodGroup(_)) => Reason::WaitingForGang,
        Refusal::OVER_BUDGET => Reason::NamespaceOverBudget,
        _ => Reason::Refused,
    };
    let message = match refusal.kind {
        _ if refusal.code == Refusal::OVER_BUDGET => said.clone(),
        _ if reason == Reason::WaitingForGang => said.clone(),
        Kind::Pod if refusal.name == observed.job.names.launcher => {
            format!("launcher pod created failed: {said}")
        }
        Kind::Pod => {
            let (made, wanted) = (pods::workers(observed).count(), situation.wanted);
            format!("worker pod created failed: {said} ({made} of {wanted} workers exist)")
        }
        Kind::Job => format!("launcher pod created failed: {said}"),
        Kind::StatefulSet => format!("worker pod created failed: {said}"),
        _ => format!(
            "{} {} was refused: {said}",
            refusal.kind.as_str(),
            refusal.name
        ),
    };
    (
        acceptance(refusal),
        Some(reason),
        verdict::truncated(message),
    )
}

fn gathering(situation: &Situation<'_>) -> Explanation {
    let (observed, running, wanted) = (situation.observed, situation.running, situation.wanted);
    let mut progress = format!("{running} of {wanted} workers run");
    if gang::is_leaving(observed) {
        progress += "; the PodGroup of the last run is still being deleted";
    }
    let covered = identity::keys_for(observed);
    if running >= covered {
        let message = format!(
            "{progress}; {wanted} are too many: this start of the job has keys for {covered} workers; \
             suspend and resume the job for more"
        );
        return (WaitingOn::Edit, Some(Reason::TooLarge), message);
    }
    let ended = pods::workers(observed).find(|pod| pod.phase.is_over());
    let (reason, message) = match (ended, held(pods::workers(observed))) {
        (Some(pod), _) => {
            let node = match pod.node.as_str() {
                "" => "no node",
                node => node,
            };
            let then = match retry::is_replaced(observed, pod) {
                true => " and is replaced",
                false => "",
            };
            let message = format!("{progress}; {} ended early on {node}{then}", pod.name);
            (Reason::WaitingForWorkers, message)
        }
        (None, Some((waiting, why))) => {
            let reason = match waiting.reason.as_str() {
                "Unschedulable" => Reason::Unschedulable,
                pods::SCHEDULING_GATED if observed.job.queue.is_some() => Reason::Queued,
                "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" => {
                    Reason::PullingImage
                }
                _ => Reason::WaitingForWorkers,
            };
            (reason, verdict::truncated(format!("{progress}; {why}")))
        }
        (None, None) => (Reason::WaitingForWorkers, progress),
    };
    (
        WaitingOn::Workers { running, wanted },
        Some(reason),
        message,
    )
}

fn launching(situation: &Situation<'_>) -> Explanation {
    let (observed, ready, wanted) = (situation.observed, situation.ready, situation.wanted);
    if !pods::launcher_exists(observed) && ready < wanted {
        let message = format!("{ready} of {wanted} workers are Ready; the launcher waits for all");
        let reason = Some(Reason::WaitingForWorkers);
        return (WaitingOn::Launcher, reason, message);
    }
    let message = match held(observed.launcher_pods.iter()) {
        Some((_, why)) => verdict::truncated(format!("all workers run; {why}")),
        None => "all workers run; the launcher does not yet".to_owned(),
    };
    (WaitingOn::Launcher, Some(Reason::Starting), message)
}

/// The first pod that cannot go on, and why.
fn held<'a>(mut pods: impl Iterator<Item = &'a Pod>) -> Option<(&'a Waiting, String)> {
    pods.find_map(|pod| {
        let waiting = pod.waiting.as_ref()?;
        let why = waiting.words(" ");
        Some((waiting, format!("{}: {why}", pod.name)))
    })
}
