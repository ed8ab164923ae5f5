//! Says what is true of a job and what it waits for, in words that name the object and the
//! number. Decides no action.

use super::blocked::{self, Block};
use super::{launcher, retry, verdict, workers};
use crate::job::LauncherAs;
use crate::observed::{Observed, Pod, PodPhase, Refusal};
use crate::phase::Phase;
use crate::plan::{Action, Because, Kind, WaitingOn};
use crate::reason::Reason;
use crate::status::{Count, PodNote, Status, Verdict};

/// Why the plan is as it is.
pub(super) fn because(observed: &Observed, phase: Phase, steps: &[Vec<Action>]) -> Because {
    if !steps.is_empty() {
        return Because::Acting;
    }
    Because::Waiting(match phase {
        Phase::Finished => return Because::Over,
        Phase::Finishing if observed.recorded.outcome.is_none() => WaitingOn::Record,
        // There is something to clean up, and nothing that may be done: it was refused.
        Phase::Finishing => match observed.refused.first() {
            Some(Refusal { kind, name, .. }) => WaitingOn::Acceptance {
                kind: kind.clone(),
                name: name.clone(),
            },
            None => WaitingOn::Departures,
        },
        Phase::Blocked => match block(observed) {
            Block::Name { kind, name } => WaitingOn::Name { kind, name },
            Block::Refused(Refusal { kind, name, .. }) => WaitingOn::Acceptance {
                kind: kind.clone(),
                name: name.clone(),
            },
            Block::NoAgent => WaitingOn::Agent,
        },
        Phase::Leaving => WaitingOn::Departures,
        Phase::Suspended if is_empty(observed) => WaitingOn::Resume,
        Phase::Suspended => WaitingOn::Departures,
        Phase::Preparing | Phase::Gathering => WaitingOn::Workers {
            running: count(observed, PodPhase::Running),
            wanted: observed.job.worker_count(),
        },
        Phase::Launching => WaitingOn::Launcher,
        Phase::Running => WaitingOn::Program,
        Phase::Rested => WaitingOn::AnotherLauncher,
    })
}

fn is_empty(observed: &Observed) -> bool {
    let own_pod = observed.job.launcher_as == LauncherAs::Pod;
    observed.workers.is_empty() && (!own_pod || observed.launcher_pods.is_empty())
}

/// What is true of the job.
pub(super) fn status(observed: &Observed, phase: Phase) -> Status {
    let suspended = observed.job.policy.suspended;
    let outcome = verdict::outcome(observed);
    let over = outcome.is_some();
    let (reason, message) = words(observed, phase);
    let (restarts, replaced) = retry::count(observed);
    Status {
        phase,
        reason,
        message,
        transport: observed.job.transport(&observed.site),
        suspended,
        running: phase == Phase::Running && launcher::exists(observed),
        started_at: match (suspended, observed.recorded.suspended) {
            (true, _) => observed.recorded.started_at,
            (false, true) => Some(observed.now),
            (false, false) => Some(observed.recorded.started_at.unwrap_or(observed.now)),
        },
        launcher: launcher::exists(observed).then(|| Count {
            active: if over {
                0
            } else {
                launcher::running_pods(observed)
            },
            succeeded: u32::from(
                outcome
                    .as_ref()
                    .is_some_and(|outcome| outcome.verdict == Verdict::Succeeded),
            ),
            failed: launcher::failed_pods(observed),
        }),
        workers: if (over && !observed.job.outlives_launcher) || suspended {
            Count::default()
        } else {
            Count {
                active: count(observed, PodPhase::Running),
                succeeded: count(observed, PodPhase::Succeeded),
                failed: count(observed, PodPhase::Failed),
            }
        },
        outcome,
        ready: workers::ready(observed),
        wanted: observed.job.worker_count(),
        restarts,
        replaced,
        pods: pods(observed),
    }
}

fn pods(observed: &Observed) -> Vec<PodNote> {
    if !observed.job.tells_of_pods {
        return Vec::new();
    }
    let index = |pod: &&Pod| observed.job.worker_index(&pod.name);
    let mut workers: Vec<&Pod> = workers::current(observed).collect();
    workers.sort_by_key(index);
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

fn block(observed: &Observed) -> Block<'_> {
    blocked::by(observed).expect("a job is in the phase Blocked only where something blocks it")
}

fn count(observed: &Observed, phase: PodPhase) -> u32 {
    let pods = workers::current(observed)
        .filter(|pod| pod.phase == phase)
        .count();
    u32::try_from(pods).expect("no more workers are counted than were asked for")
}

fn words(observed: &Observed, phase: Phase) -> (Option<Reason>, String) {
    match phase {
        Phase::Finished | Phase::Finishing | Phase::Rested => ended(observed),
        Phase::Blocked => match block(observed) {
            Block::Name { kind, name } => (
                Some(Reason::NameTaken),
                format!(
                    "Resource \"{name}\" of Kind \"{}\" already exists and is not managed by MPIJob",
                    kind.as_str()
                ),
            ),
            Block::Refused(refusal) => refused(observed, refusal),
            Block::NoAgent => {
                let transport = observed.job.transport(&observed.site).as_str();
                let what = match observed.job.bootstrap {
                    Some(_) => "the workers' sidecar".to_owned(),
                    None => format!("transport {transport}"),
                };
                let message = format!(
                    "{what} needs the agent's image: start the operator with --agent-image"
                );
                (Some(Reason::Invalid), message)
            }
        },
        Phase::Leaving => (None, "the job is being deleted".to_owned()),
        Phase::Suspended => (Some(Reason::Suspended), "MPIJob suspended".to_owned()),
        Phase::Preparing => (
            Some(Reason::Starting),
            "its objects are being created".to_owned(),
        ),
        Phase::Gathering => gathering(observed),
        Phase::Launching => launching(observed),
        Phase::Running => (None, "launcher and workers run".to_owned()),
    }
}

fn ended(observed: &Observed) -> (Option<Reason>, String) {
    match verdict::outcome(observed).map(|outcome| outcome.verdict) {
        Some(Verdict::Failed { reason, message }) => {
            (Some(verdict::reason(observed, &reason)), message)
        }
        Some(Verdict::Succeeded) | None => (None, "the launcher ended with 0".to_owned()),
    }
}

fn refused(observed: &Observed, refusal: &Refusal) -> (Option<Reason>, String) {
    let said = &refusal.message;
    let reason = match refusal.code {
        403 if said.contains("exceeded quota") => Reason::QuotaExceeded,
        403 if said.contains("violates PodSecurity") => Reason::PodSecurityDenied,
        400 | 422 => Reason::Invalid,
        _ => Reason::Refused,
    };
    let message = match refusal.kind {
        Kind::Pod if refusal.name == observed.job.launcher_name() => {
            format!("launcher pod created failed: {said}")
        }
        Kind::Pod => {
            let (made, wanted) = (
                workers::current(observed).count(),
                observed.job.worker_count(),
            );
            format!("worker pod created failed: {said} ({made} of {wanted} workers exist)")
        }
        Kind::Job => format!("launcher pod created failed: {said}"),
        Kind::StatefulSet => format!("worker pod created failed: {said}"),
        Kind::Service
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::ServiceAccount
        | Kind::Role
        | Kind::RoleBinding
        | Kind::VolcanoPodGroup
        | Kind::SchedulerPluginsPodGroup
        | Kind::T9kPodGroup => {
            format!(
                "{} {} was refused: {said}",
                refusal.kind.as_str(),
                refusal.name
            )
        }
    };
    (Some(reason), verdict::truncated(message))
}

fn gathering(observed: &Observed) -> (Option<Reason>, String) {
    let (running, wanted) = (
        count(observed, PodPhase::Running),
        observed.job.worker_count(),
    );
    let progress = format!("{running} of {wanted} workers run");
    let ended = workers::current(observed).find(|pod| pod.phase.is_over());
    let held = workers::current(observed).find_map(|pod| Some((pod, pod.waiting.as_ref()?)));
    match (ended, held) {
        (Some(pod), _) => {
            let node = if pod.node.is_empty() {
                "no node"
            } else {
                &pod.node
            };
            let message = format!("{progress}; {} ended early on {node}", pod.name);
            (Some(Reason::WaitingForWorkers), message)
        }
        (None, Some((pod, waiting))) => {
            let reason = match waiting.reason.as_str() {
                "Unschedulable" => Reason::Unschedulable,
                "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" => {
                    Reason::PullingImage
                }
                _ => Reason::WaitingForWorkers,
            };
            let why = format!("{} {}", waiting.reason, waiting.message);
            let message = format!("{progress}; {}: {}", pod.name, why.trim());
            (Some(reason), verdict::truncated(message))
        }
        (None, None) => (Some(Reason::WaitingForWorkers), progress),
    }
}

fn launching(observed: &Observed) -> (Option<Reason>, String) {
    let wanted = observed.job.worker_count();
    let ready = workers::ready(observed);
    if !launcher::exists(observed) && ready < wanted {
        let message = format!("{ready} of {wanted} workers are Ready; the launcher waits for all");
        return (Some(Reason::WaitingForWorkers), message);
    }
    let held = observed
        .launcher_pods
        .iter()
        .find_map(|pod| Some((pod, pod.waiting.as_ref()?)));
    let message = match held {
        Some((pod, waiting)) => {
            let why = format!("{} {}", waiting.reason, waiting.message);
            format!("all workers run; {}: {}", pod.name, why.trim())
        }
        None => "all workers run; the launcher does not yet".to_owned(),
    };
    (Some(Reason::Starting), verdict::truncated(message))
}
