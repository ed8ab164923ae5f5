//! Which of the three shapes a job of T9k has, and the same facts of each. Refuses mixtures: nobody
//! could say which half was meant.

use std::collections::BTreeMap;

use planner::job::RestartPolicy;
use serde_json::Value;

use super::super::types::{MpiConfig, MpiJob, ReplicaSpec, Worker};
use super::{LAUNCHER, REPLICA_TYPES, RESTART_POLICIES, WORKER, WORKERS_MAX, check_name, restart};
use crate::FieldError;
use crate::template::containers;

/// The worker's container in the first and second shape, and in the third.
const CONTAINERS: [&str; 2] = ["mpi-worker", "worker"];

/// A job in no shape.
pub(super) struct Wanted<'a> {
    /// Name of the container that MPI runs in.
    pub(super) container: &'static str,
    pub(super) replicas: u32,
    pub(super) template: &'a Value,
    /// The launcher's own template, where it has one with a container.
    pub(super) launcher_template: Option<&'a Value>,
    /// Words for mpirun, after those that come from other fields.
    pub(super) args: Vec<String>,
    /// The program.
    pub(super) program: &'a [String],
    pub(super) mca: BTreeMap<String, String>,
    pub(super) home: &'a str,
    pub(super) worker_restart: RestartPolicy,
    pub(super) launcher_restart: RestartPolicy,
    pub(super) restart_limit: Option<u32>,
}

/// The facts, or why the job has no shape at all. Other errors are added to the list.
pub(super) fn wanted<'a>(
    job: &'a MpiJob,
    errors: &mut Vec<FieldError>,
) -> Result<Wanted<'a>, FieldError> {
    let spec = &job.spec;
    match (&spec.worker, &spec.mpi_config, &spec.replica_specs) {
        (Some(worker), None, None) => Ok(of_worker(job, worker, errors)),
        (None, Some(config), Some(replicas)) => of_replicas(job, config, replicas, errors),
        (None, None, None) => {
            let detail = "must describe the workers";
            Err(FieldError::required("spec.worker", detail))
        }
        (None, None, Some(_)) => {
            let detail = "must say what to run, beside spec.replicaSpecs";
            Err(FieldError::required("spec.mpiConfig", detail))
        }
        (None, Some(_), None) => {
            let detail = "must describe the workers, beside spec.mpiConfig";
            Err(FieldError::required("spec.replicaSpecs", detail))
        }
        (Some(_), ..) => {
            let detail =
                "must not stand beside spec.mpiConfig or spec.replicaSpecs, which replaced it";
            Err(forbidden("spec.worker", detail))
        }
    }
}

fn forbidden(path: &str, detail: &str) -> FieldError {
    FieldError {
        path: path.to_owned(),
        problem: format!("Forbidden: {detail}"),
    }
}

fn of_worker<'a>(job: &'a MpiJob, worker: &'a Worker, errors: &mut Vec<FieldError>) -> Wanted<'a> {
    let first = worker.processes_per_worker.is_some() || worker.process_recovery.is_some();
    if first && worker.extra_mpi_args.is_some() {
        let detail =
            "must not stand beside processesPerWorker or processRecovery, which it replaced";
        errors.push(forbidden("spec.worker.extraMPIArgs", detail));
    }
    let path = "spec.worker.processesPerWorker";
    if let Some(count) = worker.processes_per_worker.filter(|count| *count < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(path, &count.into(), detail));
    }
    let container = CONTAINERS[0];
    let replicas = count("spec.worker", worker.replicas, errors);
    check_name(job, replicas.into(), errors);
    check_template("spec.worker", &worker.template, container, errors);
    check_program("spec.worker.cmd", &worker.cmd, job, errors);
    let args = match &worker.extra_mpi_args {
        Some(args) => args.clone(),
        None if first => first_words(worker),
        None => Vec::new(),
    };
    Wanted {
        container,
        replicas,
        template: &worker.template,
        launcher_template: None,
        args,
        program: &worker.cmd,
        mca: job.spec.mca.clone().unwrap_or_default(),
        home: &job.spec.mpi_home,
        worker_restart: RestartPolicy::Never,
        launcher_restart: RestartPolicy::Never,
        restart_limit: None,
    }
}

/// What the first shape meant by its fields.
fn first_words(worker: &Worker) -> Vec<String> {
    let mut words = vec!["--allow-run-as-root".to_owned()];
    if let Some(count) = worker.processes_per_worker {
        words.extend(["-N".to_owned(), count.to_string()]);
    }
    let recovery = worker.process_recovery.unwrap_or_default();
    if recovery.enable {
        words.push("--enable-recovery".to_owned());
        if let Some(limit) = recovery.limit {
            words.extend(["--max-restarts".to_owned(), limit.to_string()]);
        }
    }
    words
}

fn of_replicas<'a>(
    job: &'a MpiJob,
    config: &'a MpiConfig,
    replicas: &'a [ReplicaSpec],
    errors: &mut Vec<FieldError>,
) -> Result<Wanted<'a>, FieldError> {
    for (path, given) in [
        ("spec.mca", job.spec.mca.is_some()),
        ("spec.mpiHome", !job.spec.mpi_home.is_empty()),
    ] {
        if given {
            let detail = "must not stand beside spec.mpiConfig, which replaced it";
            errors.push(forbidden(path, detail));
        }
    }
    for (index, replica) in replicas.iter().enumerate() {
        check_replica(&format!("spec.replicaSpecs[{index}]"), replica, errors);
    }
    let find = |kind: &str| replicas.iter().position(|replica| replica.kind == kind);
    let Some(index) = find(WORKER) else {
        let detail = "must have an entry of type worker";
        return Err(FieldError::required("spec.replicaSpecs", detail));
    };
    let (path, worker) = (format!("spec.replicaSpecs[{index}]"), &replicas[index]);
    let container = CONTAINERS[1];
    let wanted = count(&path, worker.replicas, errors);
    check_name(job, wanted.into(), errors);
    check_template(&path, &worker.template, container, errors);
    check_program("spec.mpiConfig.script", &config.script, job, errors);
    let launcher = find(LAUNCHER).map(|index| &replicas[index]);
    let limits = [Some(worker), launcher].into_iter().flatten();
    let limit = limits.filter_map(|replica| replica.restart_limit).max();
    let policy = |replica: &ReplicaSpec| {
        restart(
            &replica.restart_policy,
            replica.restart_limit.unwrap_or_default(),
        )
    };
    let template = launcher.map(|launcher| &launcher.template);
    Ok(Wanted {
        container,
        replicas: wanted,
        template: &worker.template,
        launcher_template: template.filter(|template| has_container(template)),
        args: config.extra_args.clone(),
        program: &config.script,
        mca: config.mca.clone(),
        home: &config.home,
        worker_restart: policy(worker),
        launcher_restart: match launcher.map(policy) {
            // A launcher that ended well has ended the job.
            Some(RestartPolicy::Always) => RestartPolicy::OnFailure,
            Some(policy) => policy,
            None => RestartPolicy::Never,
        },
        restart_limit: limit
            .and_then(|limit| u32::try_from(limit).ok())
            .filter(|limit| *limit > 0),
    })
}

fn check_replica(path: &str, replica: &ReplicaSpec, errors: &mut Vec<FieldError>) {
    if !REPLICA_TYPES.contains(&replica.kind.as_str()) {
        let path = format!("{path}.type");
        errors.push(FieldError::unsupported(
            &path,
            &replica.kind,
            &REPLICA_TYPES,
        ));
    }
    if !RESTART_POLICIES.contains(&replica.restart_policy.as_str()) {
        let path = format!("{path}.restartPolicy.policy");
        let policy = &replica.restart_policy;
        errors.push(FieldError::unsupported(&path, policy, &RESTART_POLICIES));
    }
    if let Some(limit) = replica.restart_limit.filter(|limit| *limit < 0) {
        let path = format!("{path}.restartPolicy.limit");
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path, &limit.into(), detail));
    }
    if replica.kind == LAUNCHER && replica.replicas.is_some_and(|count| count != 1) {
        let path = format!("{path}.replicas");
        let count = replica.replicas.into();
        errors.push(FieldError::invalid(&path, &count, "must be 1"));
    }
}

/// How many workers; 1 where the number is wrong, which is said.
fn count(path: &str, replicas: Option<i64>, errors: &mut Vec<FieldError>) -> u32 {
    let count = replicas.unwrap_or(1);
    if !(1..=WORKERS_MAX).contains(&count) {
        let detail = format!("must be 1 to {WORKERS_MAX}");
        let path = format!("{path}.replicas");
        errors.push(FieldError::invalid(&path, &count.into(), &detail));
    }
    u32::try_from(count.clamp(1, WORKERS_MAX)).unwrap_or(1)
}

fn check_template(path: &str, template: &Value, name: &str, errors: &mut Vec<FieldError>) {
    let mut containers = containers(template);
    if !containers.any(|container| container["name"] == name) {
        let path = format!("{path}.template.spec.containers");
        let detail = format!("must hold a container named {name:?}");
        errors.push(FieldError::required(&path, &detail));
    }
}

fn check_program(path: &str, program: &[String], job: &MpiJob, errors: &mut Vec<FieldError>) {
    if program.is_empty() && !job.spec.debug.enabled {
        errors.push(FieldError::required(
            path,
            "must say what every process runs",
        ));
    }
}

fn has_container(template: &Value) -> bool {
    containers(template).next().is_some()
}
