//! From a valid MPIJob of kubeflow.org to the hub, as far as all versions mean the same by a field.

use std::collections::BTreeMap;

use planner::job::{
    Access, CleanUp, End, Gang, Job, LauncherStart, Lifecycle, Limits, Mpi, Owner, RestartPolicy,
    Role, WorkerPods,
};
use serde_json::Value;

use super::checks::{AUTO, WAIT_FOR_WORKERS};
use super::wire::{self, LAUNCHER, MpiJob, ReplicaSpec, Spec, WORKER};
use super::{API_VERSION, KIND};
use crate::FieldError;
use crate::muster_fields::{self, within};
use crate::template;
use crate::worker_slots::WorkerSlots;

/// What a program's command line holds when it asks for hosts while it runs.
const DISCOVERY: &str = contract::files::DISCOVER_HOSTS;
/// How the options begin by which horovodrun is told how many ranks a host takes.
const SLOTS_OPTION: &str = "--slots";

/// How one version reads a job.
pub(crate) struct Version {
    /// Fills in what the job leaves open.
    pub(crate) fill: fn(&mut MpiJob),
    /// Everything that is wrong with its values.
    pub(crate) validate: fn(&MpiJob) -> Vec<FieldError>,
    /// The hub's job, of one that is valid.
    pub(crate) hub: fn(&MpiJob, Replicas) -> Job,
}

/// The entries of `mpiReplicaSpecs`.
pub(crate) struct Replicas {
    pub(crate) launcher: ReplicaSpec,
    /// Of no replicas where there is none.
    pub(crate) worker: ReplicaSpec,
}

impl Version {
    /// What was asked for, or everything that is wrong with it.
    pub(crate) fn lower(&self, object: &Value) -> Result<Job, Vec<FieldError>> {
        let (mut job, mut errors) = wire::read(object);
        (self.fill)(&mut job);
        let mut doubts = (self.validate)(&job);
        // A field of the wrong shape was read as absent; that it is missing is not the news.
        doubts.retain(|doubt| !errors.iter().any(|error| covers(&error.path, &doubt.path)));
        errors.extend(doubts);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut replicas = job.spec.replicas.take().unwrap_or_default();
        let replicas = Replicas {
            launcher: replicas.remove(LAUNCHER).unwrap_or_default(),
            worker: replicas.remove(WORKER).unwrap_or_default(),
        };
        muster_fields::check_job((self.hub)(&job, replicas))
    }
}

fn covers(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The job as the owner of its children.
pub(crate) fn owner(job: &MpiJob) -> Owner {
    job.metadata.owner(API_VERSION, KIND)
}

/// `mpiImplementation`.
pub(crate) fn mpi(job: &MpiJob) -> Mpi {
    Mpi::from_text(&job.spec.mpi_implementation).unwrap_or(Mpi::OpenMpi)
}

/// `launcherCreationPolicy`.
pub(crate) fn launcher_start(job: &MpiJob) -> LauncherStart {
    match job.spec.launcher_creation_policy.as_str() {
        WAIT_FOR_WORKERS => LauncherStart::WhenWorkersReady,
        _ => LauncherStart::AtOnce,
    }
}

/// The workers; what they would look like does not matter where there are none.
pub(crate) fn workers(
    job: &MpiJob,
    worker: ReplicaSpec,
    labels: BTreeMap<String, String>,
    access: Access,
) -> WorkerPods {
    let count = within(worker.replicas).unwrap_or(0);
    let name = &job.spec.main_container;
    let container = (!name.is_empty()).then(|| name.clone());
    let role = Role {
        container,
        labels,
        template: worker.template,
    };
    WorkerPods {
        count,
        role: if count > 0 { role } else { Role::default() },
        restart: restart(&worker.restart_policy),
        drops_bare_args: false,
        access,
    }
}

/// `restartPolicy`.
pub(crate) fn restart(word: &str) -> RestartPolicy {
    match word {
        "Never" => RestartPolicy::Never,
        "Always" => RestartPolicy::Always,
        "ExitCode" => RestartPolicy::ExitCode,
        _ => RestartPolicy::OnFailure,
    }
}

/// `runPolicy`, as far as it limits a job, and `spec.muster`.
pub(crate) fn limits(job: &MpiJob) -> Limits {
    let policy = &job.spec.run_policy;
    Limits {
        deadline_secs: within(policy.active_deadline_seconds),
        startup_secs: job.spec.muster.startup_secs(),
        backoff_limit: within(policy.backoff_limit),
        ..Limits::NONE
    }
}

/// The rest of `runPolicy`.
pub(crate) fn lifecycle(job: &MpiJob, limits: Limits) -> Lifecycle {
    let policy = &job.spec.run_policy;
    Lifecycle {
        suspended: policy.suspend.unwrap_or(false),
        clean_up: match policy.clean_pod_policy.as_deref() {
            Some("All") => CleanUp::All,
            Some("Running") => CleanUp::Running,
            Some(_) | None => CleanUp::Nothing,
        },
        end: End::WithLauncher(limits),
    }
}

/// `slotsPerWorker`, or what the worker has room for.
pub(crate) fn slots(job: &MpiJob, worker: &ReplicaSpec) -> u32 {
    match job.spec.slots_choice == AUTO {
        true => room(&job.spec, worker).slots,
        false => within(job.spec.slots_per_worker).unwrap_or(1),
    }
}

/// A job that counts its slots by what a worker asks for also says a number, and another one. A number of
/// one says nothing: the API server writes it where there is none.
pub(crate) fn unused_slots(object: &Value) -> Option<String> {
    let (job, _) = wire::read(object);
    let said: u32 = within(job.spec.slots_per_worker)?;
    let worker = job.spec.replicas.as_ref()?.get(WORKER)?;
    let WorkerSlots { slots, basis } = room(&job.spec, worker);
    (job.spec.slots_choice == AUTO && said > 1 && said != slots).then(|| {
        format!(
            "slotsPerWorker is {said}, but spec.muster.slotsPerWorker: {AUTO} makes it {slots}: a worker has {basis}"
        )
    })
}

/// What the container has room for in which ranks start.
fn room(spec: &Spec, worker: &ReplicaSpec) -> WorkerSlots {
    let mut containers = template::containers(&worker.template);
    let name = &spec.main_container;
    let container = match name.is_empty() {
        true => containers.next(),
        false => containers.find(|container| container["name"] == *name),
    };
    WorkerSlots::of(container.unwrap_or(&Value::Null))
}

/// `schedulingPolicy`.
pub(crate) fn gang(job: &MpiJob) -> Gang {
    let wish = &job.spec.run_policy.scheduling;
    Gang {
        scheduler: job.spec.muster.gang(),
        min_members: within(wish.min_available),
        queue: first_said([wish.queue.clone(), job.queue.clone()]),
        min_resources: wish.min_resources.clone(),
        priority_class: first_said([wish.priority_class.clone()]),
        schedule_timeout_secs: within(wish.schedule_timeout_seconds),
        ..Gang::default()
    }
}

fn first_said<const N: usize>(texts: [String; N]) -> Option<String> {
    texts.into_iter().find(|text| !text.is_empty())
}

/// The program asks for hosts while it runs: the user says so, or the launcher's main container
/// mentions the discovery script.
pub(crate) fn is_elastic(job: &MpiJob, launcher: &ReplicaSpec) -> bool {
    let said = job.spec.muster.elastic;
    said.unwrap_or_else(|| asks_for_hosts(&launcher.template))
}

/// The discovery script of an elastic program also tells how many ranks a host takes. A command line that
/// says so itself keeps the last word, which the script would have.
pub(crate) fn discovery_has_slots(job: &MpiJob, launcher: &ReplicaSpec) -> bool {
    is_elastic(job, launcher) && !mentions(&launcher.template, SLOTS_OPTION)
}

fn asks_for_hosts(template: &Value) -> bool {
    mentions(template, DISCOVERY)
}

/// The command line or a variable of the main container does.
fn mentions(template: &Value, word: &str) -> bool {
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
        .any(|text| text.contains(word))
}
