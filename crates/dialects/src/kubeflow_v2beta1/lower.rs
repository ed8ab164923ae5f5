//! Wire to hub: everything that is wrong with an MPIJob at once, or a [`planner::Job`] that the
//! planner need not doubt. First come the checks of Kubeflow's own controller, in its order and
//! words, then those for what it lets pass in silence.

use planner::Job;
use planner::job::{
    CleanUp, GangWish, LauncherStart, Mpi, Owner, Policy, RestartPolicy, Role, Transport, Workers,
};
use serde_json::Value;

use super::defaults::{self, DIALECT_NAME};
use super::types::{self, LAUNCHER, MpiJob, Muster, ReplicaSpec, RunPolicy, WORKER};
use super::{API_VERSION, KIND, MANAGED_BY_US, MANAGED_BY_VALUES};
use crate::FieldError;

/// More workers than this fit neither the host list's ConfigMap nor, for most names, a name.
const WORKERS_MAX: i64 = 10_000;
/// What a program's command line holds when it asks for hosts while it runs.
const DISCOVERY: &str = planner::contract::DISCOVER_HOSTS;

const NEVER: &str = "Never";
const ON_FAILURE: &str = "OnFailure";
const AT_STARTUP: &str = "AtStartup";
const WAIT_FOR_WORKERS: &str = "WaitForWorkersReady";
const SSH: &str = "SSH";
const AGENT: &str = "Agent";
const ON: &str = "On";
const OFF: &str = "Off";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// What was asked for, or everything that is wrong with it.
pub fn lower(object: &Value) -> Result<Job, Vec<FieldError>> {
    let (mut job, mut errors) = types::read(object);
    defaults::fill(&mut job);
    let mut doubts = validate(&job);
    // A field of the wrong shape was read as absent; that it is missing is not the news.
    doubts.retain(|doubt| !errors.iter().any(|error| covers(&error.path, &doubt.path)));
    errors.extend(doubts);
    if !errors.is_empty() {
        return Err(errors);
    }
    let replicas = job.spec.replicas.take().unwrap_or_default();
    hub(&job, replicas).ok_or_else(|| {
        // Unreachable after validation; said rather than panicked on.
        vec![FieldError::required("spec", "must be a complete MPIJob")]
    })
}

/// Everything that is wrong with the values of a job, defaulted or not.
pub fn validate(job: &MpiJob) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_name(job, &mut errors);
    check_replicas(job, &mut errors);
    check_spec(job, &mut errors);
    check_silent(job, &mut errors);
    errors
}

fn covers(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn worker(job: &MpiJob) -> Option<&ReplicaSpec> {
    job.spec.replicas.as_ref()?.get(WORKER)
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

fn dns_1035_problems(label: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if label.len() > 63 {
        problems.push("must be no more than 63 characters");
    }
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let well_formed = label.bytes().all(inner)
        && label.starts_with(|first: char| first.is_ascii_lowercase())
        && !label.ends_with('-');
    if !well_formed {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    problems
}

fn check_replicas(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let path = "spec.mpiReplicaSpecs";
    let Some(replicas) = &job.spec.replicas else {
        errors.push(FieldError::required(path, "must have replica specs"));
        return;
    };
    let launcher_path = format!("{path}[{LAUNCHER}]");
    match replicas.get(LAUNCHER) {
        None => errors.push(FieldError::required(
            &launcher_path,
            "must have Launcher replica spec",
        )),
        Some(launcher) => {
            check_replica_spec(launcher, &launcher_path, errors);
            if let Some(count) = launcher.replicas.filter(|count| *count != 1) {
                let path = format!("{launcher_path}.replicas");
                errors.push(FieldError::invalid(&path, &count.into(), "must be 1"));
            }
        }
    }
    if let Some(worker) = replicas.get(WORKER) {
        let path = format!("{path}[{WORKER}]");
        check_replica_spec(worker, &path, errors);
        if let Some(count) = worker.replicas.filter(|count| *count <= 0) {
            let detail = "must be greater than or equal to 1";
            errors.push(FieldError::invalid(
                &format!("{path}.replicas"),
                &count.into(),
                detail,
            ));
        }
    }
}

fn check_replica_spec(replica: &ReplicaSpec, path: &str, errors: &mut Vec<FieldError>) {
    if replica.replicas.is_none() {
        let path = format!("{path}.replicas");
        errors.push(FieldError::required(
            &path,
            "must define number of replicas",
        ));
    }
    let policy = format!("{path}.restartPolicy");
    check_word(
        &policy,
        &replica.restart_policy,
        &[NEVER, ON_FAILURE],
        errors,
    );
    if !replica.has_container() {
        let path = format!("{path}.template.spec.containers");
        errors.push(FieldError::required(
            &path,
            "must define at least one container",
        ));
    }
}

fn check_spec(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let (spec, policy) = (&job.spec, &job.spec.run_policy);
    if spec.slots_per_worker.is_none() {
        let detail = "must have number of slots per worker";
        errors.push(FieldError::required("spec.slotsPerWorker", detail));
    }
    check_not_negative("spec.slotsPerWorker", spec.slots_per_worker, errors);
    let clean = "spec.runPolicy.cleanPodPolicy";
    match &policy.clean_pod_policy {
        None => errors.push(FieldError::required(clean, "must have clean Pod policy")),
        Some(word) => check_word(clean, word, &["All", "None", "Running"], errors),
    }
    for (name, number) in [
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("backoffLimit", policy.backoff_limit),
    ] {
        check_not_negative(&format!("spec.runPolicy.{name}"), number, errors);
    }
    if let Some(controller) = &policy.managed_by {
        check_word(
            "spec.runPolicy.managedBy",
            controller,
            &MANAGED_BY_VALUES,
            errors,
        );
    }
    if spec.ssh_auth_mount_path.is_empty() {
        let detail = "must have a mount path for SSH credentials";
        errors.push(FieldError::required("spec.sshAuthMountPath", detail));
    }
    let words = ["Intel", "MPICH", "OpenMPI"];
    check_word(
        "spec.mpiImplementation",
        &spec.mpi_implementation,
        &words,
        errors,
    );
}

/// What Kubeflow's controller lets pass, and then does something else than was written.
fn check_silent(job: &MpiJob, errors: &mut Vec<FieldError>) {
    let spec = &job.spec;
    for key in spec.replicas.iter().flat_map(|replicas| replicas.keys()) {
        check_word(
            &format!("spec.mpiReplicaSpecs[{key}]"),
            key,
            &[LAUNCHER, WORKER],
            errors,
        );
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
        check_word(path, &spec.launcher_creation_policy, &words, errors);
    }
    let scheduling = &spec.run_policy.scheduling;
    for (name, number) in [
        ("minAvailable", scheduling.min_available),
        (
            "scheduleTimeoutSeconds",
            scheduling.schedule_timeout_seconds,
        ),
    ] {
        check_not_negative(
            &format!("spec.runPolicy.schedulingPolicy.{name}"),
            number,
            errors,
        );
    }
    if !spec.muster.dialect.is_empty() {
        check_word(
            "spec.muster.dialect",
            &spec.muster.dialect,
            &[DIALECT_NAME],
            errors,
        );
    }
    check_muster(&spec.muster, errors);
}

/// Our own fields; none of them has a value when it is empty.
fn check_muster(muster: &Muster, errors: &mut Vec<FieldError>) {
    for (name, word, words) in [
        ("transport", &muster.transport, &[SSH, AGENT]),
        ("gate", &muster.gate, &[ON, OFF]),
        ("census", &muster.census, &[ON, OFF]),
    ] {
        if !word.is_empty() {
            check_word(&format!("spec.muster.{name}"), word, words, errors);
        }
    }
    if let Some(port) = muster.ssh_port.filter(|port| !(1..=65535).contains(port)) {
        let detail = "must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(
            "spec.muster.sshPort",
            &port.into(),
            detail,
        ));
    }
    if let Some(secs) = muster.startup_timeout_seconds.filter(|secs| *secs < 1) {
        let detail = "must be greater than or equal to 1";
        let path = "spec.muster.startupTimeoutSeconds";
        errors.push(FieldError::invalid(path, &secs.into(), detail));
    }
}

fn check_word(path: &str, word: &str, words: &[&str], errors: &mut Vec<FieldError>) {
    if !words.contains(&word) {
        errors.push(FieldError::unsupported(path, word, words));
    }
}

fn check_not_negative(path: &str, number: Option<i64>, errors: &mut Vec<FieldError>) {
    if let Some(number) = number.filter(|number| *number < 0) {
        errors.push(FieldError::invalid(path, &number.into(), NOT_NEGATIVE));
    }
}

/// The hub's job; none only if validation let something through that it must not.
fn hub(job: &MpiJob, mut replicas: std::collections::BTreeMap<String, ReplicaSpec>) -> Option<Job> {
    let (meta, spec) = (&job.metadata, &job.spec);
    let launcher = replicas.remove(LAUNCHER)?;
    let worker = replicas.remove(WORKER);
    let gang = gang(job)?;
    Some(Job {
        owner: Owner {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            generation: meta.generation,
        },
        mpi: match spec.mpi_implementation.as_str() {
            "Intel" => Mpi::Intel,
            "MPICH" => Mpi::Mpich,
            _ => Mpi::OpenMpi,
        },
        slots: u32::try_from(spec.slots_per_worker?).ok()?,
        elastic: spec
            .muster
            .elastic
            .unwrap_or_else(|| asks_for_hosts(&launcher.template)),
        launcher: role(launcher),
        workers: match worker {
            Some(worker) => {
                let count = u32::try_from(worker.replicas?).ok()?;
                Some(Workers {
                    count,
                    role: role(worker),
                })
            }
            None => None,
        },
        launcher_is_host: spec.run_launcher_as_worker?,
        launcher_start: match spec.launcher_creation_policy.as_str() {
            WAIT_FOR_WORKERS => LauncherStart::WhenWorkersReady,
            _ => LauncherStart::AtOnce,
        },
        transport: match spec.muster.transport.as_str() {
            AGENT => Some(Transport::Agent),
            SSH => Some(Transport::Ssh),
            _ => None,
        },
        gate: spec.muster.gate != OFF,
        census: spec.muster.census != OFF,
        ssh_port: spec.muster.ssh_port.map(u16::try_from).transpose().ok()?,
        ssh_mount_path: spec.ssh_auth_mount_path.clone(),
        policy: policy(&spec.run_policy, &spec.muster)?,
        gang,
    })
}

fn role(replica: ReplicaSpec) -> Role {
    let restart = match replica.restart_policy.as_str() {
        NEVER => RestartPolicy::Never,
        _ => RestartPolicy::OnFailure,
    };
    Role {
        template: replica.template,
        restart,
    }
}

fn policy(policy: &RunPolicy, muster: &Muster) -> Option<Policy> {
    Some(Policy {
        clean: match policy.clean_pod_policy.as_deref()? {
            "All" => CleanUp::All,
            "Running" => CleanUp::Running,
            _ => CleanUp::Nothing,
        },
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

fn gang(job: &MpiJob) -> Option<GangWish> {
    let wish = &job.spec.run_policy.scheduling;
    Some(GangWish {
        min_members: wish.min_available.map(i32::try_from).transpose().ok()?,
        queue: first_said([wish.queue.clone(), job.metadata.queue.clone()]),
        min_resources: wish.min_resources.clone(),
        priority_class: first_said([wish.priority_class.clone()]),
        schedule_timeout_secs: wish
            .schedule_timeout_seconds
            .map(i32::try_from)
            .transpose()
            .ok()?,
    })
}

fn first_said<const N: usize>(texts: [String; N]) -> Option<String> {
    texts.into_iter().find(|text| !text.is_empty())
}

/// The launcher's main container mentions the discovery script.
fn asks_for_hosts(template: &Value) -> bool {
    let Some(container) = template.pointer("/spec/containers/0") else {
        return false;
    };
    let items = |key: &str| {
        container
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let variables = items("env").filter_map(|variable| variable.get("value"));
    items("command")
        .chain(items("args"))
        .chain(variables)
        .filter_map(Value::as_str)
        .any(|text| text.contains(DISCOVERY))
}

/// Another controller was asked to run this job. An empty name is another's name too; a value
/// that is no text at all is an error of the job, and ours to report.
pub fn managed_elsewhere(job: &Value) -> bool {
    let controller = job
        .pointer("/spec/runPolicy/managedBy")
        .and_then(Value::as_str);
    controller.is_some_and(|controller| controller != MANAGED_BY_US)
}
