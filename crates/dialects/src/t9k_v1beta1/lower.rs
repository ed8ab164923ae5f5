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
    CleanUp, GangWish, HostNames, LauncherAs, LauncherStart, Mpi, Policy, RestartPolicy, Role,
    Workers, WorkersAs,
};
use planner::site::{GangScheduler, Transport};
use serde_json::Value;

use self::shape::Wanted;
use super::types::{self, Mode, MpiJob, T9kScheduler};
use super::{API_VERSION, KIND, defaults};
use crate::names::dns_1035_problems;
use crate::{FieldError, muster_fields};

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
    validate(&job, &mut errors);
    match wanted {
        Some(wanted) if errors.is_empty() => Ok(hub(&job, &wanted)),
        Some(_) | None => {
            if errors.is_empty() {
                // Unreachable: what has no shape was said to have none.
                errors.push(FieldError::required("spec", "must be a complete MPIJob"));
            }
            Err(errors)
        }
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
    let startup = muster.startup_timeout_seconds;
    Job {
        owner: job.metadata.owner(API_VERSION, KIND),
        mpi: Mpi::OpenMpi,
        slots: command::slots(&wanted.args, wanted.replicas),
        launcher: Role {
            template: command::launcher_template(job, wanted),
            restart: wanted.launcher_restart,
            labels: labels(job, LAUNCHER),
            container: None,
        },
        workers: Some(Workers {
            count: wanted.replicas,
            role: Role {
                template: command::worker_template(job, wanted),
                restart: wanted.worker_restart,
                labels: labels(job, WORKER),
                container: Some(wanted.container.to_owned()),
            },
            drops_bare_args: false,
        }),
        workers_as: WorkersAs::Pods,
        launcher_as: LauncherAs::Pod,
        launcher_is_host: false,
        launcher_is_indexed: false,
        host_names: HostNames::Service,
        discovery_tells_slots: false,
        exec_script: false,
        launcher_start: match is_debugged {
            true => LauncherStart::AtOnce,
            false => LauncherStart::WhenWorkersReady,
        },
        transport: Some(muster.transport().unwrap_or(Transport::Ssh)),
        // A worker that is being debugged may run anything, and need not answer.
        gate: muster.is_gated() && !is_debugged,
        ssh_port: muster.ssh_port.and_then(|port| u16::try_from(port).ok()),
        census: muster.has_census() && !is_debugged,
        ssh_mount_path: spec.ssh_auth_mount_path.clone(),
        elastic: muster.elastic.unwrap_or(false),
        policy: Policy {
            clean: match spec.clean_up_workers {
                Some(true) => CleanUp::All,
                Some(false) | None => CleanUp::Nothing,
            },
            clean_covers_launcher: false,
            failed_worker_is_fatal: false,
            ttl_secs: None,
            expires_secs: None,
            deadline_secs: None,
            startup_secs: startup.and_then(|secs| u64::try_from(secs).ok()),
            backoff_limit: wanted.restart_limit,
            suspended: spec.pause.enabled,
        },
        gang_scheduler: spec.t9k_scheduler.as_ref().map(|_| GangScheduler::T9k),
        gang: gang(spec.t9k_scheduler.as_ref()),
        tells_of_pods: true,
        outlives_launcher: false,
        account: None,
        bootstrap: None,
    }
}

fn gang(scheduler: Option<&T9kScheduler>) -> GangWish {
    let Some(T9kScheduler { queue, priority }) = scheduler else {
        return GangWish::default();
    };
    GangWish {
        queue: Some(queue.clone()),
        priority: priority.and_then(|priority| i32::try_from(priority).ok()),
        ..GangWish::default()
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
