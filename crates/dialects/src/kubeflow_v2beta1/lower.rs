//! Wire to hub: everything that is wrong with an MPIJob at once, or a [`planner::Job`] that the
//! planner need not doubt. First come the checks of Kubeflow's own controller, in its order and
//! words, then those for what it lets pass in silence.

use std::collections::BTreeMap;

use planner::Job;
use planner::job::{HostNames, LauncherAs, Policy, WorkersAs};
use serde_json::Value;

use super::defaults;
use super::types::{MpiJob, Muster, RunPolicy, WORKER};
use super::{MANAGED_BY_US, MANAGED_BY_VALUES};
use crate::kubeflow::checks::{self, worker};
use crate::kubeflow::hub::{self, Replicas, Version};
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
    let mut job = HOW.lower(object)?;
    job.transport = job.transport.or_else(|| muster_status::transport(object));
    Ok(job)
}

/// Everything that is wrong with the values of a job, defaulted or not.
pub fn validate(job: &MpiJob) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_name(job, &mut errors);
    checks::launcher(job, &RESTART_POLICIES, &mut errors);
    check_worker(job, &mut errors);
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

fn check_worker(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let Some(worker) = worker(job) else {
        return;
    };
    let path = format!("spec.mpiReplicaSpecs[{WORKER}]");
    checks::replica_spec(worker, &path, &RESTART_POLICIES, errors);
    if let Some(count) = worker.replicas.filter(|count| *count <= 0) {
        let detail = "must be greater than or equal to 1";
        let path = format!("{path}.replicas");
        errors.push(FieldError::invalid(&path, &count.into(), detail));
    }
}

fn job(job: &MpiJob, replicas: Replicas) -> Option<Job> {
    let spec = &job.spec;
    let Replicas { launcher, worker } = replicas;
    Some(Job {
        owner: hub::owner(job),
        mpi: hub::mpi(job),
        slots: u32::try_from(spec.slots_per_worker?).ok()?,
        elastic: hub::is_elastic(job, &launcher),
        launcher: hub::role(launcher, BTreeMap::new()),
        workers: hub::workers(job, worker, BTreeMap::new())?,
        workers_as: WorkersAs::Pods,
        launcher_as: LauncherAs::Job,
        launcher_is_host: spec.run_launcher_as_worker?,
        launcher_is_indexed: true,
        host_names: HostNames::Service,
        discovery_tells_slots: false,
        exec_script: false,
        launcher_start: hub::launcher_start(job),
        transport: spec.muster.transport(),
        gate: spec.muster.is_gated(),
        census: spec.muster.has_census(),
        ssh_port: spec.muster.ssh_port.map(u16::try_from).transpose().ok()?,
        ssh_mount_path: spec.ssh_auth_mount_path.clone(),
        policy: policy(&spec.run_policy, &spec.muster)?,
        gang_scheduler: None,
        gang: hub::gang(job)?,
        tells_of_pods: false,
        outlives_launcher: false,
        account: None,
        bootstrap: None,
    })
}

fn policy(policy: &RunPolicy, muster: &Muster) -> Option<Policy> {
    Some(Policy {
        clean: hub::clean_up(policy.clean_pod_policy.as_deref()?),
        clean_covers_launcher: false,
        failed_worker_is_fatal: false,
        expires_secs: None,
        ttl_secs: policy
            .ttl_seconds_after_finished
            .map(u32::try_from)
            .transpose()
            .ok()?,
        deadline_secs: policy
            .active_deadline_seconds
            .map(u64::try_from)
            .transpose()
            .ok()?,
        startup_secs: muster
            .startup_timeout_seconds
            .map(u64::try_from)
            .transpose()
            .ok()?,
        backoff_limit: policy.backoff_limit.map(u32::try_from).transpose().ok()?,
        suspended: policy.suspend?,
    })
}

/// Another controller was asked to run this job. An empty name is another's name too; a value
/// that is no text at all is an error of the job, and ours to report.
pub fn managed_elsewhere(job: &Value) -> bool {
    let controller = job
        .pointer("/spec/runPolicy/managedBy")
        .and_then(Value::as_str);
    controller.is_some_and(|controller| controller != MANAGED_BY_US)
}
