//! Wire to hub for v1: what its documentation says and what its controller does where that is not a
//! bug, as docs/decisions/0021 lists. Everything that is wrong with a job at once, or a
//! [`planner::Job`] that the planner need not doubt.

use std::collections::BTreeMap;

use contract::labels::{JOB_ROLE_LABEL, LAUNCHER_ROLE, REPLICA_TYPE_LABEL, WORKER_ROLE};
use planner::Job;
use planner::job::{
    Access, HostNames, Launcher, LauncherHost, LauncherKind, LauncherStart, Limits, Login, Names,
    RestartPolicy, Role, WorkerPods, Workers,
};
use planner::site::Transport;
use serde_json::{Map, Value};

use super::defaults;
use super::types::{LAUNCHER, MpiJob, ReplicaSpec, WORKER};
use super::{MANAGED_BY_US, MANAGED_BY_VALUES};
use crate::FieldError;
use crate::kubeflow::checks;
use crate::kubeflow::hub::{self, Replicas, Version};
use crate::muster_fields::within;
use crate::muster_status;
use crate::template::containers;

const RESTART_POLICIES: [&str; 4] = ["Always", "ExitCode", "Never", "OnFailure"];
/// Every pod carries the job's name as a label, and no label is longer.
const NAME_BYTES_MAX: usize = 63;

const HOW: Version = Version {
    fill: defaults::fill,
    validate,
    hub: job,
};

/// What was asked for, or everything that is wrong with it.
pub(super) fn lower(object: &Value) -> Result<Job, Vec<FieldError>> {
    let job = HOW.lower(object)?;
    Ok(muster_status::begun(job, object, HostNames::Pods))
}

/// Everything that is wrong with the values of a job, defaulted or not.
pub(super) fn validate(job: &MpiJob) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_name(job, &mut errors);
    checks::launcher(job, &RESTART_POLICIES, &mut errors);
    checks::workers(job, 0, &RESTART_POLICIES, &mut errors);
    check_containers(job, &mut errors);
    checks::spec(job, &MANAGED_BY_VALUES, &mut errors);
    checks::stricter(job, &mut errors);
    errors
}

fn check_name(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let name = job.metadata.name.as_str();
    let label = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && name.starts_with(|first: char| first.is_ascii_lowercase());
    let problem = if name.len() > NAME_BYTES_MAX {
        "must be no more than 63 characters, because every pod is labelled with it"
    } else if job.spec.muster.transport() == Some(Transport::Ssh) && !label {
        "must be a DNS-1035 label in transport SSH, because it names a Service"
    } else {
        return;
    };
    errors.push(FieldError::invalid("metadata.name", &name.into(), problem));
}

/// v1's own controller looks for these itself.
fn check_containers(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let replicas = job.spec.replicas.iter().flatten();
    for (role, replica) in replicas.filter(|(role, _)| [LAUNCHER, WORKER].contains(&role.as_str()))
    {
        for (index, container) in containers(&replica.template).enumerate() {
            for key in ["name", "image"] {
                let given = container.get(key).and_then(Value::as_str);
                if given.is_none_or(str::is_empty) {
                    let path = format!(
                        "spec.mpiReplicaSpecs[{role}].template.spec.containers[{index}].{key}"
                    );
                    errors.push(FieldError::required(&path, "must not be empty"));
                }
            }
        }
    }
}

fn job(job: &MpiJob, replicas: Replicas) -> Job {
    let spec = &job.spec;
    let Replicas { launcher, worker } = replicas;
    let login = Login {
        discovery_has_slots: true,
        exec_script: true,
        ..spec.muster.login(&spec.ssh_auth_mount_path)
    };
    let access = match spec.muster.transport() {
        // Nothing resolves the bare name of a pod.
        Some(Transport::Ssh) => Access::Ssh(login),
        Some(Transport::Agent) | None => Access::Agent(login, HostNames::Pods),
    };
    let is_host = spec.run_launcher_as_worker == Some(true) || has_gpu(&launcher);
    let found_by = labels([(REPLICA_TYPE_LABEL, WORKER_ROLE)]);
    let limits = Limits {
        expires_secs: within(spec.run_policy.ttl_seconds_after_finished),
        failed_worker_is_fatal: true,
        ..hub::limits(job)
    };
    Job {
        owner: hub::owner(job),
        names: Names::usual(&job.metadata.name),
        mpi: hub::mpi(job),
        slots: hub::slots(job, &worker),
        elastic: hub::is_elastic(job, &launcher),
        launcher: Launcher {
            start: hub::launcher_start(job),
            host: is_host.then_some(LauncherHost::Unindexed),
            ..launcher_of(launcher)
        },
        workers: Workers::Pods(WorkerPods {
            drops_bare_args: true,
            ..hub::workers(job, worker, found_by, access)
        }),
        lifecycle: hub::lifecycle(job, limits),
        gang: hub::gang(job),
        isolated: spec.muster.is_isolated(),
        placement: spec.muster.placement(),
        recovery: spec.muster.recovery(),
        queue: None,
        reports_pods: false,
    }
}

/// A launcher that ended well has ended the job, so it is never started again after that.
fn launcher_of(launcher: ReplicaSpec) -> Launcher {
    let found_by = [
        (JOB_ROLE_LABEL, super::LAUNCHER_ROLE),
        (REPLICA_TYPE_LABEL, LAUNCHER_ROLE),
    ];
    let restart = match hub::restart(&launcher.restart_policy) {
        RestartPolicy::Always => RestartPolicy::OnFailure,
        other => other,
    };
    Launcher {
        role: Role {
            template: launcher.template,
            labels: labels(found_by),
            container: None,
        },
        kind: LauncherKind::Pod {
            restart,
            is_cleaned_up: true,
        },
        start: LauncherStart::AtOnce,
        host: None,
    }
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    pairs.into_iter().map(owned).collect()
}

/// v1 takes a launcher with a GPU for a host.
fn has_gpu(launcher: &ReplicaSpec) -> bool {
    let limits = containers(&launcher.template)
        .filter_map(|container| container.get("resources")?.get("limits")?.as_object());
    limits.flat_map(Map::keys).any(|name| name.contains("gpu"))
}

/// Another controller was asked to run this job. A value that is no text at all is an error of the
/// job, and ours to report.
pub(super) fn managed_elsewhere(job: &Value) -> bool {
    let controller = job
        .pointer("/spec/runPolicy/managedBy")
        .and_then(Value::as_str);
    controller.is_some_and(|controller| !MANAGED_BY_US.contains(&controller))
}
