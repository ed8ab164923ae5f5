//! Checks the values of an MPIJob of kubeflow.org that mean the same in every version. What is legal in
//! one version only is checked by its dialect.

use contract::mpi::Mpi;

use crate::{FieldError, RESOURCES, muster_fields};

use super::GROUP;
use super::wire::{LAUNCHER, MpiJob, ReplicaSpec, WORKER};

/// More workers than this fit neither the host list's ConfigMap nor, for most names, a name.
pub(crate) const WORKERS_MAX: i64 = 10_000;

/// `muster.slotsPerWorker`.
pub(crate) const AUTO: &str = "Auto";
pub(crate) const AT_STARTUP: &str = "AtStartup";
pub(crate) const WAIT_FOR_WORKERS: &str = "WaitForWorkersReady";
pub(crate) const CLEAN_POLICIES: [&str; 3] = ["All", "None", "Running"];
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// The workers' entry.
pub(crate) fn worker(job: &MpiJob) -> Option<&ReplicaSpec> {
    job.spec.replicas.as_ref()?.get(WORKER)
}

/// The launcher's entry must be there, valid, and for one launcher.
pub(crate) fn launcher(job: &MpiJob, policies: &[&str], errors: &mut Vec<FieldError>) {
    let path = "spec.mpiReplicaSpecs";
    let Some(replicas) = &job.spec.replicas else {
        errors.push(FieldError::required(path, "must have replica specs"));
        return;
    };
    let path = format!("{path}[{LAUNCHER}]");
    let Some(launcher) = replicas.get(LAUNCHER) else {
        let detail = "must have Launcher replica spec";
        errors.push(FieldError::required(&path, detail));
        return;
    };
    replica_spec(launcher, &path, policies, errors);
    if let Some(count) = launcher.replicas.filter(|count| *count != 1) {
        let path = format!("{path}.replicas");
        errors.push(FieldError::invalid(&path, &count.into(), "must be 1"));
    }
}

/// The workers' entry, with at least so many replicas.
pub(crate) fn workers(job: &MpiJob, least: i64, policies: &[&str], errors: &mut Vec<FieldError>) {
    let Some(worker) = worker(job) else {
        return;
    };
    let path = format!("spec.mpiReplicaSpecs[{WORKER}]");
    replica_spec(worker, &path, policies, errors);
    if let Some(count) = worker.replicas.filter(|count| *count < least) {
        let detail = format!("must be greater than or equal to {least}");
        let path = format!("{path}.replicas");
        errors.push(FieldError::invalid(&path, &count.into(), &detail));
    }
}

/// One entry of `mpiReplicaSpecs`.
fn replica_spec(
    replica: &ReplicaSpec,
    path: &str,
    policies: &[&str],
    errors: &mut Vec<FieldError>,
) {
    if replica.replicas.is_none() {
        let path = format!("{path}.replicas");
        let detail = "must define number of replicas";
        errors.push(FieldError::required(&path, detail));
    }
    let policy = format!("{path}.restartPolicy");
    one_of(&policy, &replica.restart_policy, policies, errors);
    if !replica.has_container() {
        let path = format!("{path}.template.spec.containers");
        let detail = "must define at least one container";
        errors.push(FieldError::required(&path, detail));
    }
}

/// Values of the spec that every version has.
pub(crate) fn spec(job: &MpiJob, managers: &[&str], errors: &mut Vec<FieldError>) {
    let (spec, policy) = (&job.spec, &job.spec.run_policy);
    if spec.slots_per_worker.is_none() {
        let detail = "must have number of slots per worker";
        errors.push(FieldError::required("spec.slotsPerWorker", detail));
    }
    not_negative("spec.slotsPerWorker", spec.slots_per_worker, errors);
    if !spec.slots_choice.is_empty() {
        let path = "spec.muster.slotsPerWorker";
        one_of(path, &spec.slots_choice, &[AUTO], errors);
    }
    let clean = "spec.runPolicy.cleanPodPolicy";
    match &policy.clean_pod_policy {
        None => errors.push(FieldError::required(clean, "must have clean Pod policy")),
        Some(policy) => one_of(clean, policy, &CLEAN_POLICIES, errors),
    }
    if let Some(policy) = &spec.clean_pod_policy {
        one_of("spec.cleanPodPolicy", policy, &CLEAN_POLICIES, errors);
    }
    for (name, number) in [
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("backoffLimit", policy.backoff_limit),
    ] {
        not_negative(&format!("spec.runPolicy.{name}"), number, errors);
    }
    if let Some(controller) = &policy.managed_by {
        one_of("spec.runPolicy.managedBy", controller, managers, errors);
    }
    if spec.ssh_auth_mount_path.is_empty() {
        let detail = "must have a mount path for SSH credentials";
        errors.push(FieldError::required("spec.sshAuthMountPath", detail));
    }
    let mpi = &spec.mpi_implementation;
    one_of("spec.mpiImplementation", mpi, &Mpi::NAMES, errors);
}

/// What Kubeflow's controllers accept, and then do something else than the job asks for.
pub(crate) fn stricter(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let spec = &job.spec;
    for key in spec.replicas.iter().flat_map(|replicas| replicas.keys()) {
        let path = format!("spec.mpiReplicaSpecs[{key}]");
        one_of(&path, key, &[LAUNCHER, WORKER], errors);
    }
    let count = worker(job).and_then(|worker| worker.replicas);
    if let Some(count) = count.filter(|count| *count > WORKERS_MAX) {
        let detail = format!("must be less than or equal to {WORKERS_MAX}");
        let path = format!("spec.mpiReplicaSpecs[{WORKER}].replicas");
        errors.push(FieldError::invalid(&path, &count.into(), &detail));
    }
    if !spec.launcher_creation_policy.is_empty() {
        let words = [AT_STARTUP, WAIT_FOR_WORKERS];
        let path = "spec.launcherCreationPolicy";
        one_of(path, &spec.launcher_creation_policy, &words, errors);
    }
    let scheduling = &spec.run_policy.scheduling;
    let timeout = scheduling.schedule_timeout_seconds;
    for (name, number) in [
        ("minAvailable", scheduling.min_available),
        ("scheduleTimeoutSeconds", timeout),
    ] {
        let path = format!("spec.runPolicy.schedulingPolicy.{name}");
        not_negative(&path, number, errors);
    }
    if !spec.muster.dialect.is_empty() {
        let path = "spec.muster.dialect";
        let versions = RESOURCES.iter().filter(|row| row.group == GROUP);
        let names = versions.flat_map(|row| row.dialects).map(|row| row.name);
        let names: Vec<&str> = names.collect();
        one_of(path, &spec.muster.dialect, &names, errors);
    }
    main_container(job, errors);
    muster_fields::check(&spec.muster, errors);
}

fn main_container(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let name = &job.spec.main_container;
    let Some(worker) = worker(job).filter(|_| !name.is_empty()) else {
        return;
    };
    if worker.has_container() && !worker.has_container_named(name) {
        let detail = "must be the name of a container of the Worker template";
        let name = name.as_str().into();
        errors.push(FieldError::invalid("spec.mainContainer", &name, detail));
    }
}

/// The value is one of these.
pub(crate) fn one_of(path: &str, value: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if !allowed.contains(&value) {
        errors.push(FieldError::unsupported(path, value, allowed));
    }
}

fn not_negative(path: &str, number: Option<i64>, errors: &mut Vec<FieldError>) {
    if let Some(number) = number.filter(|number| *number < 0) {
        errors.push(FieldError::invalid(path, &number.into(), NOT_NEGATIVE));
    }
}
