//! Wire to hub for T9k: one template for two roles, and a command line made of fields. Its three
//! shapes become one before anything else; mixtures of them are refused. Everything that is wrong
//! with a job at once, or a [`planner::Job`] that the planner need not doubt.

mod command;
mod shape;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use contract::labels::REPLICA_TYPE_LABEL;
use planner::Job;
use planner::job::{
    Access, CleanUp, End, Gang, GangChoice, HostNames, Launcher, LauncherKind, LauncherStart,
    Lifecycle, Limits, Login, Mpi, Names, RestartPolicy, Role, WorkerPods, Workers,
};
use planner::site::{GangScheduler, Transport};
use serde_json::Value;

use self::shape::Wanted;
use super::types::{self, Mode, MpiJob, T9kScheduler};
use super::{API_VERSION, KIND, defaults};
use crate::FieldError;
use crate::muster_fields::{self, Muster, within};
use crate::muster_status;
use crate::names::dns_1035_problems;

/// Type of the launcher's replica.
pub(super) const LAUNCHER: &str = "launcher";
/// Type of the workers' replicas.
pub(super) const WORKER: &str = "worker";
pub(super) const REPLICA_TYPES: [&str; 2] = [LAUNCHER, WORKER];
pub(super) const WORKERS_MAX: i64 = 10_000;
/// Of the scheduler's groups.
pub(super) const PRIORITIES: RangeInclusive<i64> = 0..=100;
pub(super) const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];

/// What was asked for, or everything that is wrong with it.
pub(super) fn lower(object: &Value) -> Result<Job, Vec<FieldError>> {
    let (mut job, mut errors) = types::read(object);
    defaults::fill(&mut job);
    let wanted = shape::wanted(&job, &mut errors);
    let wanted = wanted.map_err(|error| errors.push(error));
    validate(&job, &mut errors);
    match wanted {
        Ok(wanted) if errors.is_empty() => {
            let job = muster_fields::check_job(hub(&job, &wanted))?;
            Ok(muster_status::begun(job, object, HostNames::Service))
        }
        Ok(_) | Err(()) => Err(errors),
    }
}

fn validate(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let spec = &job.spec;
    for (path, mount) in [
        ("spec.ssh.sshdPath", &spec.sshd_path),
        ("spec.ssh.sshAuthMountPath", &spec.ssh_auth_mount_path),
    ] {
        if !mount.is_empty() && !mount.starts_with('/') {
            let value = mount.as_str().into();
            errors.push(FieldError::invalid(path, &value, "must be absolute"));
        }
    }
    if let Some(scheduler) = &spec.t9k_scheduler {
        check_scheduler(scheduler, errors);
    }
    for (path, mode) in [
        ("spec.runMode.debug.replicaSpecs", &spec.debug),
        ("spec.runMode.pause.resumeSpecs", &spec.pause),
    ] {
        check_types(path, mode, errors);
    }
    muster_fields::check(&spec.muster, errors);
}

fn check_scheduler(scheduler: &T9kScheduler, errors: &mut Vec<FieldError>) {
    let path = "spec.scheduler.t9kScheduler";
    if scheduler.queue.is_empty() {
        let queue = format!("{path}.queue");
        errors.push(FieldError::required(
            &queue,
            "must name a queue of the scheduler",
        ));
    }
    if let Some(priority) = scheduler.priority
        && !PRIORITIES.contains(&priority)
    {
        let detail = "must be between 0 and 100";
        let path = format!("{path}.priority");
        errors.push(FieldError::invalid(&path, &priority.into(), detail));
    }
}

fn check_types(path: &str, mode: &Mode, errors: &mut Vec<FieldError>) {
    for (index, given) in mode.overrides.iter().enumerate() {
        if !REPLICA_TYPES.contains(&given.kind.as_str()) {
            let path = format!("{path}[{index}].type");
            errors.push(FieldError::unsupported(&path, &given.kind, &REPLICA_TYPES));
        }
    }
}

/// The last worker's name is that of a host.
fn check_name(job: &MpiJob, replicas: i64, errors: &mut Vec<FieldError>) {
    let last = format!("{}-worker-{}", job.metadata.name, replicas.max(1) - 1);
    let problems = dns_1035_problems(&last);
    if !problems.is_empty() {
        let detail = format!(
            "{last:?} cannot be the name of a host: {}",
            problems.join(", ")
        );
        let name = job.metadata.name.as_str().into();
        errors.push(FieldError::invalid("metadata.name", &name, &detail));
    }
}

fn hub(job: &MpiJob, wanted: &Wanted<'_>) -> Job {
    let (spec, muster) = (&job.spec, &job.spec.muster);
    let is_debugged = spec.debug.enabled;
    let login = muster.login(&spec.ssh_auth_mount_path);
    let login = Login {
        // A worker that is being debugged may run anything, and need not answer.
        gate: login.gate && !is_debugged,
        census: login.census && !is_debugged,
        discovery_has_slots: muster.elastic == Some(true),
        ..login
    };
    Job {
        owner: job.metadata.owner(API_VERSION, KIND),
        names: Names::usual(&job.metadata.name),
        mpi: Mpi::OpenMpi,
        slots: command::slots(&wanted.args, wanted.replicas),
        elastic: muster.elastic.unwrap_or(false),
        launcher: Launcher {
            role: Role {
                template: command::launcher_template(job, wanted),
                labels: labels(job, LAUNCHER),
                container: None,
            },
            kind: LauncherKind::Pod {
                restart: wanted.launcher_restart,
                is_cleaned_up: false,
            },
            // Kueue admits no group before all of its pods are there.
            start: match is_debugged || job.queue.is_some() {
                true => LauncherStart::AtOnce,
                false => LauncherStart::WhenWorkersReady,
            },
            host: None,
        },
        workers: Workers::Pods(WorkerPods {
            count: wanted.replicas,
            role: Role {
                template: command::worker_template(job, wanted),
                labels: labels(job, WORKER),
                container: Some(wanted.container.to_owned()),
            },
            restart: wanted.worker_restart,
            drops_bare_args: false,
            access: match muster.transport() {
                Some(Transport::Agent) => Access::Agent(login, HostNames::Service),
                Some(Transport::Ssh) | None => Access::Ssh(login),
            },
        }),
        lifecycle: Lifecycle {
            suspended: spec.pause.enabled,
            clean_up: match spec.clean_up_workers {
                Some(true) => CleanUp::All,
                Some(false) | None => CleanUp::Nothing,
            },
            end: End::WithLauncher(Limits {
                startup_secs: muster.startup_secs(),
                backoff_limit: wanted.restart_limit,
                ..Limits::NONE
            }),
        },
        gang: gang(muster, spec.t9k_scheduler.as_ref()),
        isolated: muster.is_isolated(),
        placement: muster.placement(),
        recovery: muster.recovery(),
        queue: job.queue.clone(),
        reports_pods: true,
    }
}

/// Who has a queue of the platform waits for its scheduler, unless the job names another.
fn gang(muster: &Muster, scheduler: Option<&T9kScheduler>) -> Gang {
    let choice = muster.gang();
    let Some(T9kScheduler { queue, priority }) = scheduler else {
        return Gang {
            scheduler: choice,
            ..Gang::default()
        };
    };
    Gang {
        scheduler: match choice {
            GangChoice::Site => GangChoice::Scheduler(GangScheduler::T9k),
            other => other,
        },
        queue: Some(queue.clone()),
        priority: within(*priority),
        ..Gang::default()
    }
}

/// As the platform labels the pods of its other kinds.
fn labels(job: &MpiJob, replica: &str) -> BTreeMap<String, String> {
    let pairs = [
        ("mpijob", job.metadata.name.as_str()),
        ("tensorstack.dev/component", "mpijob"),
        ("tensorstack.dev/component-type", "user"),
        (REPLICA_TYPE_LABEL, replica),
    ];
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// What the third shape says about restarts; without a limit there are none.
fn restart(policy: &str, limit: i64) -> RestartPolicy {
    match policy {
        _ if limit <= 0 => RestartPolicy::Never,
        "Always" => RestartPolicy::Always,
        "Never" => RestartPolicy::Never,
        _ => RestartPolicy::OnFailure,
    }
}
