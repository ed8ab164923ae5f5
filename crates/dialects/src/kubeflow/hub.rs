//! From a valid MPIJob of kubeflow.org to the hub, as far as all versions mean the same by a field.

use std::collections::BTreeMap;

use planner::job::{
    CleanUp, GangWish, Job, LauncherStart, Mpi, Owner, RestartPolicy, Role, Workers,
};
use serde_json::Value;

use super::checks::WAIT_FOR_WORKERS;
use super::wire::{self, LAUNCHER, MpiJob, ReplicaSpec, WORKER};
use super::{API_VERSION, KIND};
use crate::FieldError;

/// What a program's command line holds when it asks for hosts while it runs.
const DISCOVERY: &str = contract::files::DISCOVER_HOSTS;

/// How one version reads a job.
pub(crate) struct Version {
    /// Fills in what the job leaves open.
    pub(crate) fill: fn(&mut MpiJob),
    /// Everything that is wrong with its values.
    pub(crate) validate: fn(&MpiJob) -> Vec<FieldError>,
    /// The hub's job; none only if validation let something through that it must not.
    pub(crate) hub: fn(&MpiJob, Replicas) -> Option<Job>,
}

/// The entries of `mpiReplicaSpecs`.
pub(crate) struct Replicas {
    pub(crate) launcher: ReplicaSpec,
    pub(crate) worker: Option<ReplicaSpec>,
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
        let replicas = job.spec.replicas.take().unwrap_or_default();
        let lowered = Replicas::of(replicas).and_then(|replicas| (self.hub)(&job, replicas));
        lowered.ok_or_else(|| {
            // Unreachable after validation; said rather than panicked on.
            vec![FieldError::required("spec", "must be a complete MPIJob")]
        })
    }
}

impl Replicas {
    fn of(mut replicas: BTreeMap<String, ReplicaSpec>) -> Option<Self> {
        Some(Self {
            launcher: replicas.remove(LAUNCHER)?,
            worker: replicas.remove(WORKER),
        })
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

/// The workers, none of them where there are to be none.
pub(crate) fn workers(
    job: &MpiJob,
    worker: Option<ReplicaSpec>,
    labels: BTreeMap<String, String>,
) -> Option<Option<Workers>> {
    let Some(worker) = worker else {
        return Some(None);
    };
    let count = u32::try_from(worker.replicas?).ok()?;
    let name = &job.spec.main_container;
    let container = (!name.is_empty()).then(|| name.clone());
    let role = Role {
        container,
        ..role(worker, labels)
    };
    let workers = Workers {
        count,
        role,
        drops_bare_args: false,
    };
    Some((count > 0).then_some(workers))
}

/// One kind of pod.
pub(crate) fn role(replica: ReplicaSpec, labels: BTreeMap<String, String>) -> Role {
    let restart = match replica.restart_policy.as_str() {
        "Never" => RestartPolicy::Never,
        "Always" => RestartPolicy::Always,
        "ExitCode" => RestartPolicy::ExitCode,
        _ => RestartPolicy::OnFailure,
    };
    Role {
        template: replica.template,
        restart,
        labels,
        container: None,
    }
}

/// `cleanPodPolicy`.
pub(crate) fn clean_up(word: &str) -> CleanUp {
    match word {
        "All" => CleanUp::All,
        "Running" => CleanUp::Running,
        _ => CleanUp::Nothing,
    }
}

/// `schedulingPolicy`.
pub(crate) fn gang(job: &MpiJob) -> Option<GangWish> {
    let wish = &job.spec.run_policy.scheduling;
    let timeout = wish.schedule_timeout_seconds.map(i32::try_from);
    Some(GangWish {
        min_members: wish.min_available.map(i32::try_from).transpose().ok()?,
        queue: first_said([wish.queue.clone(), job.queue.clone()]),
        min_resources: wish.min_resources.clone(),
        priority_class: first_said([wish.priority_class.clone()]),
        priority: None,
        schedule_timeout_secs: timeout.transpose().ok()?,
    })
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
