//! Wire to hub: everything that is wrong with an MPIJob at once, or a [`planner::Job`] that the
//! planner need not doubt. First come the checks of Kubeflow's own controller, in its order and
//! words, then those for what it lets pass in silence.

use std::collections::BTreeMap;

use planner::Job;
use planner::job::{
    Access, HostNames, JobRestart, Launcher, LauncherHost, LauncherKind, Login, Names, Role,
    Workers,
};
use planner::site::Transport;
use serde_json::Value;

use super::defaults;
use super::types::MpiJob;
use super::{MANAGED_BY_US, MANAGED_BY_VALUES};
use crate::kubeflow::checks::{self, worker};
use crate::kubeflow::hub::{self, Replicas, Version};
use crate::muster_fields::within;
use crate::names::dns_1035_problems;
use crate::{FieldError, muster_status};

const RESTART_POLICIES: [&str; 2] = ["Never", "OnFailure"];

const HOW: Version = Version {
    fill: defaults::fill,
    validate,
    hub: job,
};

/// What was asked for, or everything that is wrong with it.
pub fn lower(object: &Value) -> Result<Job, Vec<FieldError>> {
    let job = HOW.lower(object)?;
    Ok(muster_status::begun(job, object, HostNames::Service))
}

/// Everything that is wrong with the values of a job, defaulted or not.
pub fn validate(job: &MpiJob) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_name(job, &mut errors);
    checks::launcher(job, &RESTART_POLICIES, &mut errors);
    checks::workers(job, 1, &RESTART_POLICIES, &mut errors);
    checks::spec(job, &MANAGED_BY_VALUES, &mut errors);
    checks::stricter(job, &mut errors);
    errors
}

fn check_name(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let name = &job.metadata.name;
    let count = worker(job)
        .and_then(|worker| worker.replicas)
        .unwrap_or_default()
        .max(1);
    let last = format!("{name}-worker-{}", count - 1);
    let problems = dns_1035_problems(&last);
    if !problems.is_empty() {
        let detail = format!(
            "will not able to create pod and service with invalid DNS label {last:?}: {}",
            problems.join(", ")
        );
        errors.push(FieldError::invalid(
            "metadata.name",
            &name.as_str().into(),
            &detail,
        ));
    }
}

fn job(job: &MpiJob, replicas: Replicas) -> Job {
    let spec = &job.spec;
    let Replicas { launcher, worker } = replicas;
    let login = Login {
        discovery_has_slots: hub::discovery_has_slots(job, &launcher),
        ..spec.muster.login(&spec.ssh_auth_mount_path)
    };
    let access = match spec.muster.transport() {
        None => Access::SiteDefault(login),
        Some(Transport::Ssh) => Access::Ssh(login),
        Some(Transport::Agent) => Access::Agent(login, HostNames::Service),
    };
    let is_host = spec.run_launcher_as_worker == Some(true);
    Job {
        owner: hub::owner(job),
        names: Names::usual(&job.metadata.name),
        mpi: hub::mpi(job),
        slots: hub::slots(job, &worker),
        elastic: hub::is_elastic(job, &launcher),
        launcher: Launcher {
            kind: LauncherKind::Job {
                restart: match launcher.restart_policy.as_str() {
                    "Never" => JobRestart::Never,
                    _ => JobRestart::OnFailure,
                },
                ttl_secs: within(spec.run_policy.ttl_seconds_after_finished),
            },
            role: Role {
                template: launcher.template,
                ..Role::default()
            },
            start: hub::launcher_start(job),
            host: is_host.then_some(LauncherHost::Indexed),
        },
        workers: Workers::Pods(hub::workers(job, worker, BTreeMap::new(), access)),
        lifecycle: hub::lifecycle(job, hub::limits(job)),
        gang: hub::gang(job),
        isolated: spec.muster.is_isolated(),
        placement: spec.muster.placement(),
        recovery: spec.muster.recovery(),
        queue: None,
        reports_pods: false,
    }
}

/// Another controller was asked to run this job. An empty name is another's name too; a value
/// that is no text at all is an error of the job, and ours to report.
pub fn managed_elsewhere(job: &Value) -> bool {
    let controller = job
        .pointer("/spec/runPolicy/managedBy")
        .and_then(Value::as_str);
    controller.is_some_and(|controller| controller != MANAGED_BY_US)
}
