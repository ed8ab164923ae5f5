//! A namespace of its own for each test, and hands to do there what nodes and users would do. There
//! are no nodes behind the API server of these tests: pods run, end and fail because a test says so.
//!
//! Decides how that is said in the words of the API; must not know what the operator makes of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::api::{Api, collection};
use crate::jobs::MpiJob;
use crate::operator::{Account, Operator, Settings};
use crate::{Cluster, condition, wait_for};

/// What an operator, a Job controller or a garbage collector does at once, on a machine with two
/// processors that does ten other things.
pub const SOON: Duration = Duration::from_secs(20);
/// How many requests are sent at the same time where there are many of one kind.
const HANDS: usize = 8;

/// A namespace, and an account with the shipped rights whose lock lies there too.
#[derive(Debug)]
pub struct ApiFixture {
    /// The cluster.
    pub cluster: Cluster,
    /// Its API server.
    pub api: Arc<Api>,
    /// The namespace.
    pub namespace: String,
    /// Whose operator looks after it.
    pub account: Account,
}

/// What a pod is made to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState<'a> {
    /// Its containers run, but it is not Ready.
    Running,
    /// Its containers run, and it is Ready.
    Ready,
    /// Its containers ended with 0.
    Succeeded,
    /// A container ended with 1; the pod gives this reason and message, which may be empty.
    Failed {
        /// `status.reason`.
        reason: &'a str,
        /// `status.message`.
        message: &'a str,
    },
}

/// Of every pod: nobody here calls one.
const ADDRESS: &str = "192.0.2.1";

/// A container ended badly, and nobody says more.
pub const FAILED: PodState<'static> = PodState::Failed {
    reason: "",
    message: "",
};

impl ApiFixture {
    /// Makes a namespace whose name begins with these words and is not used again.
    pub fn new(cluster: &Cluster, api: &Arc<Api>, words: &str) -> Result<Self> {
        let namespace = new_namespace(api, words)?;
        let account = Account::install(cluster, api, &namespace)?;
        Ok(Self {
            cluster: cluster.clone(),
            api: api.clone(),
            namespace,
            account,
        })
    }

    /// Starts an operator for this namespace and waits until it leads.
    pub fn operator(&self) -> Result<Operator> {
        let operator = self.operator_of(&self.account, &self.account.kubeconfig)?;
        operator.await_leading()?;
        Ok(operator)
    }

    /// Starts an operator for this namespace under any account, by any way to the API server.
    pub fn operator_of(&self, account: &Account, kubeconfig: &Path) -> Result<Operator> {
        let namespace = &self.namespace;
        let settings = Settings {
            account,
            namespace,
            kubeconfig,
            group: None,
            flags: &[],
        };
        Operator::start(&self.cluster, &settings)
    }

    /// Path of an object in this namespace.
    pub fn path(&self, resource: &str, name: &str) -> String {
        format!("{}/{name}", collection(&self.namespace, resource))
    }

    /// Creates an object in this namespace.
    pub fn create(&self, resource: &str, object: &Value) -> Result<Value> {
        self.api
            .create(&collection(&self.namespace, resource), object)
    }

    /// Submits a job.
    pub fn submit(&self, job: &MpiJob) -> Result<Value> {
        self.create("mpijobs", &job.json())
    }

    /// An object of this namespace, or `None`.
    pub fn get(&self, resource: &str, name: &str) -> Result<Option<Value>> {
        self.api.get(&self.path(resource, name))
    }

    /// A job that exists.
    pub fn job(&self, name: &str) -> Result<Value> {
        self.get("mpijobs", name)?
            .with_context(|| format!("there is no job {name}"))
    }

    /// Changes a job's spec as a user would.
    pub fn edit(&self, job: &str, patch: &Value) -> Result<Value> {
        self.api.merge(&self.path("mpijobs", job), patch)
    }

    /// All objects of a resource.
    pub fn list(&self, resource: &str) -> Result<Vec<Value>> {
        self.api.list(&collection(&self.namespace, resource))
    }

    /// A job's pods of a role that are not on their way out, in the order of their names.
    pub fn pods(&self, job: &str, role: &str) -> Result<Vec<Value>> {
        let selector = format!(
            "?labelSelector=training.kubeflow.org/job-name={job},training.kubeflow.org/job-role={role}"
        );
        let mut pods = self
            .api
            .list(&(collection(&self.namespace, "pods") + &selector))?;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.sort_by_key(|pod| name(pod).to_owned());
        Ok(pods)
    }

    /// The events about a job, in the order in which they were stored.
    pub fn events(&self, job: &str) -> Result<Vec<Value>> {
        let mut events = self.list("events")?;
        events.retain(|event| event["involvedObject"]["kind"] == "MPIJob");
        events.retain(|event| event["involvedObject"]["name"] == job);
        let version = |event: &Value| event["metadata"]["resourceVersion"].as_str()?.parse().ok();
        events.sort_by_key(|event| version(event).unwrap_or(0_u64));
        Ok(events)
    }

    /// The reasons of the events about a job, in the order in which they were stored.
    pub fn event_reasons(&self, job: &str) -> Result<Vec<String>> {
        let reason = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
        Ok(self.events(job)?.iter().map(reason).collect())
    }

    /// Waits until something holds of a job; the error says how the job was last.
    pub fn await_job(
        &self,
        job: &str,
        what: &str,
        at_most: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let found = wait_for(&format!("job {job}: {what}"), at_most, || {
            Ok(Some(self.job(job)?).filter(|job| holds(job)))
        });
        found.with_context(|| {
            let status = self.job(job).map(|job| job["status"].to_string());
            format!(
                "its status is {}",
                status.unwrap_or_else(|error| format!("{error:#}"))
            )
        })
    }

    /// Waits until a job has a condition that is True.
    pub fn await_condition(&self, job: &str, kind: &str) -> Result<Value> {
        self.await_job(job, kind, SOON, |job| condition(job, kind) == Some("True"))
    }

    /// Waits until a job has so many pods of a role.
    pub fn await_pods(&self, job: &str, role: &str, count: usize) -> Result<Vec<Value>> {
        let what = format!("{count} {role} pods of {job}");
        let found = wait_for(&what, SOON, || {
            Ok(Some(self.pods(job, role)?).filter(|pods| pods.len() == count))
        });
        found.with_context(|| {
            let status = self.job(job).map(|job| job["status"].to_string());
            format!(
                "its status is {}",
                status.unwrap_or_else(|error| format!("{error:#}"))
            )
        })
    }

    /// Waits until an object exists.
    pub fn await_object(&self, resource: &str, name: &str) -> Result<Value> {
        wait_for(&format!("{resource} {name}"), SOON, || {
            self.get(resource, name)
        })
    }

    /// Makes pods be something, as their kubelets would.
    pub fn set(&self, pods: &[Value], state: PodState<'_>) -> Result<()> {
        self.at_once(pods, |pod| {
            let path = format!("{}/status", self.path("pods", name(pod)));
            self.api
                .merge(&path, &json!({"status": status_of(pod, state)}))?;
            Ok(())
        })
    }

    /// Makes a job's workers Ready and its launcher's pod run, once they exist.
    pub fn run(&self, job: &str, workers: usize) -> Result<()> {
        let workers = self.await_pods(job, "worker", workers)?;
        self.set(&workers, PodState::Ready)?;
        let launcher = self.await_pods(job, "launcher", 1)?;
        self.set(&launcher, PodState::Ready)
    }

    /// Makes a job's launcher end well.
    pub fn finish(&self, job: &str) -> Result<()> {
        let launcher = self.await_pods(job, "launcher", 1)?;
        self.set(&launcher, PodState::Succeeded)
    }

    /// Does something to many things, several at a time.
    pub fn at_once<T: Sync>(
        &self,
        things: &[T],
        each: impl Fn(&T) -> Result<()> + Sync,
    ) -> Result<()> {
        self.with_hands(HANDS, things, each)
    }

    /// The same, so many at a time.
    pub fn with_hands<T: Sync>(
        &self,
        hands: usize,
        things: &[T],
        each: impl Fn(&T) -> Result<()> + Sync,
    ) -> Result<()> {
        let share = things.len().div_ceil(hands).max(1);
        thread::scope(|scope| {
            let shares = things.chunks(share);
            let hands: Vec<_> = shares
                .map(|share| scope.spawn(|| share.iter().try_for_each(&each)))
                .collect();
            let results = hands
                .into_iter()
                .map(|hand| hand.join().expect("no hand panics"));
            results.collect()
        })
    }
}

/// Makes a namespace in which pods can be created.
pub fn new_namespace(api: &Api, words: &str) -> Result<String> {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    // The cluster may be kept for many runs, so a count alone would repeat itself.
    let run = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_millis()
        % 100_000_000;
    let namespace = format!("{words}-{run}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    ensure!(
        namespace.len() <= 63,
        "{namespace} is too long for a namespace"
    );
    api.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": namespace}}),
    )?;
    let account = format!("{}/default", collection(&namespace, "serviceaccounts"));
    wait_for("the default service account", SOON, || api.get(&account))?;
    Ok(namespace)
}

/// Name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// UID of an object.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn status_of(pod: &Value, state: PodState<'_>) -> Value {
    let (phase, ready) = match state {
        PodState::Running => ("Running", false),
        PodState::Ready => ("Running", true),
        PodState::Succeeded => ("Succeeded", false),
        PodState::Failed { .. } => ("Failed", false),
    };
    let began = &pod["metadata"]["creationTimestamp"];
    let ended = |code: u8, reason: &str| json!({"terminated": {"startedAt": began, "exitCode": code, "reason": reason}});
    let container_state = match state {
        PodState::Running | PodState::Ready => json!({"running": {"startedAt": began}}),
        PodState::Succeeded => ended(0, "Completed"),
        PodState::Failed { .. } => ended(1, "Error"),
    };
    let containers = pod["spec"]["containers"].as_array();
    let containers = containers.into_iter().flatten().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "",
            "ready": ready, "restartCount": 0, "state": container_state,
        })
    });
    let mut status = json!({
        "phase": phase,
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        "containerStatuses": containers.collect::<Vec<_>>(),
    });
    if phase == "Running" {
        status["podIP"] = ADDRESS.into();
    }
    if let PodState::Failed { reason, message } = state {
        status["reason"] = reason.into();
        status["message"] = message.into();
    }
    status
}
