//! Wire to hub for bdap: a launcher pod that waits for a StatefulSet of workers, goes into them
//! through the API server, and does not end the job by its end. Everything that is wrong with a job at
//! once, or a [`planner::Job`] that the planner need not doubt.

use planner::Job;
use planner::job::{
    Account, AccountRule, CleanUp, End, Gang, Launcher, LauncherKind, LauncherStart, Lifecycle,
    Mpi, Names, Placement, RestartPolicy, Role, StatefulWorkers, Workers,
};
use serde_json::Value;

use super::types::{self, MpiJob, Template};
use super::{API_VERSION, KIND, defaults};
use crate::FieldError;

pub(super) const WORKERS_MAX: i64 = 10_000;
/// Pods carry the StatefulSet's name and a hash of eleven characters in a label of 63.
const NAME_BYTES_MAX: usize = 63 - "-worker".len() - 11;
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
pub(super) const CLEAN_POD_POLICIES: [&str; 3] = ["None", "Running", "All"];

/// What was asked for, or everything that is wrong with it.
pub(super) fn lower(object: &Value) -> Result<Job, Vec<FieldError>> {
    let (mut job, mut errors) = types::read(object);
    let misshapen: Vec<String> = errors.iter().map(|error| error.path.clone()).collect();
    defaults::fill(&mut job);
    // A field of the wrong shape has its error already.
    let is_readable = |path: &str| !misshapen.iter().any(|named| named.starts_with(path));
    check_name(&job.metadata.name, &mut errors);
    let workers = check_workers(&job, &is_readable, &mut errors);
    for (name, template) in [
        ("launcherTemplate", &job.spec.launcher),
        ("workerTemplate", &job.spec.worker),
    ] {
        let path = format!("spec.{name}");
        if is_readable(&path) {
            check_template(&path, template, &mut errors);
        }
    }
    let policy = &job.spec.clean_pod_policy;
    if !CLEAN_POD_POLICIES.contains(&policy.as_str()) {
        let path = "spec.muster.cleanPodPolicy";
        errors.push(FieldError::unsupported(path, policy, &CLEAN_POD_POLICIES));
    }
    match workers {
        Some(workers) if errors.is_empty() => Ok(hub(&job, workers)),
        Some(_) | None => Err(errors),
    }
}

fn check_name(name: &str, errors: &mut Vec<FieldError>) {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let problem = if name.len() > NAME_BYTES_MAX {
        "must be no more than 45 characters, because the workers' StatefulSet is named after it"
    } else if !name.bytes().all(inner) || name.starts_with('-') || name.ends_with('-') {
        "must be a DNS-1123 label, because hosts are named after it: lower case letters, digits and '-'"
    } else {
        return;
    };
    errors.push(FieldError::invalid("metadata.name", &name.into(), problem));
}

fn check_workers(
    job: &MpiJob,
    is_readable: &dyn Fn(&str) -> bool,
    errors: &mut Vec<FieldError>,
) -> Option<u32> {
    let path = "spec.numWorkers";
    let Some(count) = job.spec.num_workers else {
        if is_readable(path) || errors.is_empty() {
            errors.push(FieldError::required(path, "must say how many workers"));
        }
        return None;
    };
    if !(1..=WORKERS_MAX).contains(&count) {
        let detail = format!("must be between 1 and {WORKERS_MAX}, inclusive");
        errors.push(FieldError::invalid(path, &count.into(), &detail));
    }
    u32::try_from(count).ok()
}

fn check_template(path: &str, template: &Template, errors: &mut Vec<FieldError>) {
    if template.containers == 0 {
        let path = format!("{path}.spec.containers");
        errors.push(FieldError::required(&path, "must have a container"));
    }
    let policy = &template.restart_policy;
    if !RESTART_POLICIES.contains(&policy.as_str()) {
        let path = format!("{path}.spec.restartPolicy");
        errors.push(FieldError::unsupported(&path, policy, &RESTART_POLICIES));
    }
}

fn hub(job: &MpiJob, workers: u32) -> Job {
    let names = Names::usual(&job.metadata.name);
    let role = |template: &Template| Role {
        template: template.written.clone(),
        ..Role::default()
    };
    let launcher = &job.spec.launcher;
    Job {
        owner: job.metadata.owner(API_VERSION, KIND),
        mpi: Mpi::OpenMpi,
        slots: 1,
        elastic: false,
        launcher: Launcher {
            role: role(launcher),
            kind: LauncherKind::Pod {
                restart: restart(&launcher.restart_policy),
                is_cleaned_up: false,
            },
            start: LauncherStart::WhenWorkersReady,
            host: None,
        },
        workers: Workers::StatefulSet(StatefulWorkers {
            count: workers,
            role: role(&job.spec.worker),
            account: account(&names, workers),
        }),
        names,
        lifecycle: Lifecycle {
            suspended: false,
            clean_up: match job.spec.clean_pod_policy.as_str() {
                "All" => CleanUp::All,
                "Running" => CleanUp::Running,
                _ => CleanUp::Nothing,
            },
            end: End::OnDeletion,
        },
        isolated: false,
        placement: Placement::Anywhere,
        recovery: None,
        gang: Gang::default(),
        queue: None,
        reports_pods: true,
    }
}

/// It may see pods, and run commands in the job's own workers. A WebSocket begins with a GET, older
/// clients with a POST. An account that the template names is not used: binding it would let every
/// pod that runs as it into the workers.
fn account(names: &Names, workers: u32) -> Account {
    let workers = (0..workers).map(|index| format!("{}-{index}", names.worker));
    Account {
        name: names.launcher.clone(),
        rules: vec![
            AccountRule {
                resource: "pods",
                verbs: &["get", "list", "watch"],
                names: None,
            },
            AccountRule {
                resource: "pods/exec",
                verbs: &["get", "create"],
                names: Some(workers.collect()),
            },
        ],
    }
}

fn restart(policy: &str) -> RestartPolicy {
    match policy {
        "Never" => RestartPolicy::Never,
        "OnFailure" => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    }
}
