//! Wire to hub for the openmpi component: parameters become two whole pod templates and the files that
//! they mount. Everything that is wrong with a job at once, or a [`planner::Job`] that the planner need
//! not doubt.

mod assets;
mod lists;
mod pods;

use std::collections::BTreeMap;

use planner::Job;
use planner::job::{
    Access, Account, AccountRule, CleanUp, End, Gang, Launcher, LauncherKind, LauncherStart,
    Lifecycle, Limits, Mpi, Names, Placement, Provided, RestartPolicy, Role, WorkerPods, Workers,
};
use serde_json::Value;

use super::types::{self, OpenMpi};
use super::{API_VERSION, KIND, defaults};
use crate::FieldError;
use crate::names::dns_1035_problems;

pub(super) const WORKERS_MAX: i64 = 10_000;
pub(super) const GPUS_MAX: i64 = 1024;
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// Everything about a job that needs no second look.
pub(super) struct Wanted<'a> {
    pub(super) job: &'a OpenMpi,
    pub(super) image: &'a str,
    pub(super) secret: &'a str,
    pub(super) workers: u32,
    pub(super) gpus: u32,
    pub(super) init_secs: u64,
    pub(super) pull_secrets: Vec<&'a str>,
    pub(super) groups: Vec<i64>,
    pub(super) node_selector: Vec<(&'a str, &'a str)>,
    pub(super) resources: Vec<(&'a str, &'a str)>,
}

impl Wanted<'_> {
    /// The image of the sidecar, where it is not muster's agent.
    pub(super) fn own_controller(&self) -> Option<&str> {
        let image = self.job.spec.controller_image.as_deref();
        image.filter(|image| *image != defaults::CONTROLLER_IMAGE)
    }

    /// Ranks per worker.
    pub(super) fn slots(&self) -> u32 {
        self.gpus.max(1)
    }
}

/// What was asked for, or everything that is wrong with it.
pub(super) fn lower(object: &Value) -> Result<Job, Vec<FieldError>> {
    let (job, mut errors) = types::read(object);
    let wanted = wanted(&job, &mut errors);
    if errors.is_empty() {
        Ok(hub(&wanted))
    } else {
        Err(errors)
    }
}

fn wanted<'a>(job: &'a OpenMpi, errors: &mut Vec<FieldError>) -> Wanted<'a> {
    let spec = &job.spec;
    let workers = within(
        "spec.workers",
        spec.workers,
        defaults::WORKERS,
        WORKERS_MAX,
        errors,
    );
    let gpus = within("spec.gpu", spec.gpu, 0, GPUS_MAX, errors);
    let init_secs = within(
        "spec.initTimeout",
        spec.init_timeout,
        defaults::INIT_TIMEOUT,
        i32::MAX.into(),
        errors,
    );
    for (path, id) in [
        ("spec.runAsUser", spec.run_as_user),
        ("spec.runAsGroup", spec.run_as_group),
    ] {
        within(path, id, 0, i32::MAX.into(), errors);
    }
    check_names(job, workers, errors);
    check_texts(job, errors);
    check_transfers(job, errors);
    Wanted {
        job,
        image: required(
            "spec.image",
            &spec.image,
            "the image of master and workers",
            errors,
        ),
        secret: required(
            "spec.secret",
            &spec.secret,
            "a Secret with id_rsa, id_rsa.pub and authorized_keys",
            errors,
        ),
        workers: u32::try_from(workers).unwrap_or_default(),
        gpus: u32::try_from(gpus).unwrap_or_default(),
        init_secs: u64::try_from(init_secs).unwrap_or_default(),
        pull_secrets: lists::names("spec.imagePullSecrets", &spec.image_pull_secrets, errors),
        groups: lists::numbers("spec.supplementalGroups", &spec.supplemental_groups, errors),
        node_selector: lists::pairs("spec.nodeSelector", &spec.node_selector, errors),
        resources: lists::amounts("spec.customResources", &spec.custom_resources, errors),
    }
}

/// A number from 0 to `max`; 0 where it is wrong, which is said.
fn within(
    path: &str,
    given: Option<i64>,
    otherwise: i64,
    max: i64,
    errors: &mut Vec<FieldError>,
) -> i64 {
    let number = given.unwrap_or(otherwise);
    if (0..=max).contains(&number) {
        return number;
    }
    let detail = format!("must be 0 to {max}");
    errors.push(FieldError::invalid(path, &number.into(), &detail));
    0
}

fn required<'a>(
    path: &str,
    given: &'a Option<String>,
    what: &str,
    errors: &mut Vec<FieldError>,
) -> &'a str {
    match given {
        Some(given) => given,
        None => {
            errors.push(FieldError::required(path, &format!("must name {what}")));
            ""
        }
    }
}

/// Pods are hosts; the job is where its object is, whatever a parameter says.
fn check_names(job: &OpenMpi, workers: i64, errors: &mut Vec<FieldError>) {
    let last = format!("{}-worker-{}", job.metadata.name, workers.max(1) - 1);
    let problems = dns_1035_problems(&last);
    if !problems.is_empty() {
        let problems = problems.join(", ");
        let detail = format!("{last:?} cannot be the name of a host: {problems}");
        let name = job.metadata.name.as_str().into();
        errors.push(FieldError::invalid("metadata.name", &name, &detail));
    }
    for (path, given, real) in [
        ("spec.name", &job.spec.name, &job.metadata.name),
        (
            "spec.namespace",
            &job.spec.namespace,
            &job.metadata.namespace,
        ),
    ] {
        if let Some(given) = given.as_ref().filter(|given| *given != real) {
            let field = path.replace("spec", "metadata");
            let detail = format!("must be null or as {field}, which is {real:?}");
            let given = given.as_str().into();
            errors.push(FieldError::invalid(path, &given, &detail));
        }
    }
}

fn check_texts(job: &OpenMpi, errors: &mut Vec<FieldError>) {
    let spec = &job.spec;
    for (path, given) in [
        ("spec.image", &spec.image),
        ("spec.secret", &spec.secret),
        ("spec.init", &spec.init),
        ("spec.exec", &spec.exec),
        ("spec.serviceAccountName", &spec.service_account_name),
        ("spec.schedulerName", &spec.scheduler_name),
        ("spec.controllerImage", &spec.controller_image),
        ("spec.s3Secret", &spec.s3_secret),
        ("spec.downloadDataTo", &spec.download_data_to),
        ("spec.uploadDataFrom", &spec.upload_data_from),
    ] {
        if given.as_ref().is_some_and(String::is_empty) {
            let detail = "must not be empty; null, or nothing, is how it is not set";
            errors.push(FieldError::invalid(path, &"".into(), detail));
        }
    }
    if let Some(policy) = &spec.image_pull_policy
        && !PULL_POLICIES.contains(&policy.as_str())
    {
        let path = "spec.imagePullPolicy";
        errors.push(FieldError::unsupported(path, policy, &PULL_POLICIES));
    }
    for (path, amount) in [("spec.cpu", &spec.cpu), ("spec.memory", &spec.memory)] {
        if let Some(amount) = amount.as_ref().filter(|amount| !lists::is_amount(amount)) {
            let detail = "must be an amount, such as 2, 500m or 4Gi";
            errors.push(FieldError::invalid(path, &amount.as_str().into(), detail));
        }
    }
}

/// Half a transfer would copy nothing, and say nothing.
fn check_transfers(job: &OpenMpi, errors: &mut Vec<FieldError>) {
    let spec = &job.spec;
    let (download, upload) = (
        [
            ("spec.downloadDataFrom", &spec.download_data_from),
            ("spec.downloadDataTo", &spec.download_data_to),
        ],
        [
            ("spec.uploadDataTo", &spec.upload_data_to),
            ("spec.uploadDataFrom", &spec.upload_data_from),
        ],
    );
    for [(remote, address), (local, path)] in [download, upload] {
        let (given, missing) = match (address, path) {
            (Some(_), None) => (remote, local),
            (None, Some(_)) => (local, remote),
            (None, None) => continue,
            (Some(address), Some(_)) => {
                check_address(remote, address, errors);
                if spec.s3_secret.is_none() {
                    let detail = format!("must name the Secret with the keys for {remote}");
                    errors.push(FieldError::required("spec.s3Secret", &detail));
                }
                continue;
            }
        };
        let detail = format!("must stand beside {given}: one without the other copies nothing");
        errors.push(FieldError::required(missing, &detail));
    }
}

fn check_address(path: &str, address: &str, errors: &mut Vec<FieldError>) {
    let bucket = address
        .strip_prefix("s3://")
        .and_then(|rest| rest.split('/').next());
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_bucket = |bucket: &str| !bucket.is_empty() && bucket.bytes().all(named);
    if !bucket.is_some_and(is_bucket) {
        let detail = "must be an address such as s3://bucket/prefix";
        errors.push(FieldError::invalid(path, &address.into(), detail));
    }
}

/// A sidecar of somebody else asks the API server about the master. The component's account could see
/// everything in the cluster; this one sees the namespace's pods. An account that the user names gets
/// no rights from us.
fn account(job: &OpenMpi) -> Option<Account> {
    let is_made = job.spec.service_account_name.is_none();
    is_made.then(|| Account {
        name: job.metadata.name.clone(),
        rules: vec![AccountRule {
            resource: "pods",
            verbs: &["get", "list"],
            names: None,
        }],
    })
}

/// What the component calls its objects.
pub(super) fn names(job: &OpenMpi) -> Names {
    let name = &job.metadata.name;
    Names {
        launcher: format!("{name}-master"),
        config: format!("{name}-assets"),
        ..Names::usual(name)
    }
}

fn hub(wanted: &Wanted<'_>) -> Job {
    let job = wanted.job;
    let app = ("app".to_owned(), job.metadata.name.clone());
    let role = |template: Value, role: &str| Role {
        template,
        labels: BTreeMap::from([app.clone(), ("role".to_owned(), role.to_owned())]),
        container: None,
    };
    let worker = || role(pods::worker(wanted), "worker");
    let is_agent = wanted.own_controller().is_none();
    Job {
        owner: job.metadata.owner(API_VERSION, KIND),
        names: names(job),
        mpi: Mpi::OpenMpi,
        slots: wanted.slots(),
        elastic: false,
        launcher: Launcher {
            role: role(pods::master(wanted), "master"),
            kind: LauncherKind::Pod {
                restart: RestartPolicy::Never,
                is_cleaned_up: false,
            },
            start: LauncherStart::AtOnce,
            host: None,
        },
        workers: Workers::Pods(WorkerPods {
            count: wanted.workers,
            role: match wanted.workers {
                0 => Role::default(),
                _ => worker(),
            },
            restart: RestartPolicy::Never,
            drops_bare_args: false,
            access: Access::Provided(Provided {
                files: assets::files(wanted),
                sidecar: is_agent.then(|| pods::CONTROLLER.to_owned()),
                selector: BTreeMap::from([app.clone()]),
                ports: BTreeMap::from([("openmpi".to_owned(), defaults::SERVICE_PORT)]),
                startup_limit: format!("initTimeout is {} s", wanted.init_secs),
                account: account(job),
            }),
        }),
        lifecycle: Lifecycle {
            suspended: false,
            clean_up: CleanUp::Notify,
            end: End::WithLauncher(Limits {
                deleted_launcher_is_fatal: true,
                ..Limits::NONE
            }),
        },
        isolated: false,
        placement: Placement::Anywhere,
        recovery: None,
        gang: Gang::default(),
        queue: None,
        reports_pods: false,
    }
}
