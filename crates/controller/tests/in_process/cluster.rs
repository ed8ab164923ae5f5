//! Starts the controller over a cluster in this process, and plays the kubelet by a script.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use minicluster::kubelet::{Order, PodRef, PodReport};
use minicluster::service::{LogStream, Shared};
use minicluster::{Config, NodeConfig};
use planner::site::Site;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::faults::{Fault, Faults};

pub(crate) const DEFINITION: &str =
    include_str!("../../../../deploy/crds/kubeflow.org_mpijobs.yaml");
/// Simulated: no test waits for it in fact.
const PATIENCE: Duration = Duration::from_secs(300);

thread_local! {
    /// Each test has a thread, a runtime and a paused clock of its own.
    static START: Instant = Instant::now();
}

/// The simulated time, for the cluster and for the controller.
pub(crate) fn now() -> Timestamp {
    let passed = START.with(|start| start.elapsed());
    let start = Timestamp::from_second(1_800_000_000).expect("it is a time");
    start + SignedDuration::try_from(passed).expect("a test is short")
}

/// What becomes of a pod.
pub(crate) enum Fate {
    /// It runs until it is stopped.
    Runs,
    /// It runs until it is stopped, and exits with 0 then.
    Yields,
    /// Its main container exits with this code as soon as it started.
    Exits(i32),
    /// The kubelet cannot mount its volumes.
    NeverStarts,
}

pub(crate) type Script = fn(&PodRef) -> Fate;

/// All launchers succeed at once.
pub(crate) fn launchers_succeed(pod: &PodRef) -> Fate {
    if pod.name.contains("launcher") {
        Fate::Exits(0)
    } else {
        Fate::Runs
    }
}

/// Nothing ends by itself.
pub(crate) fn all_run(_: &PodRef) -> Fate {
    Fate::Runs
}

/// A cluster and a client of it that no fault disturbs.
pub(crate) struct Cluster {
    pub(crate) client: kube::Client,
    pub(crate) faults: Faults,
    pub(crate) site: Site,
    orders: Arc<Mutex<Vec<Order>>>,
    operator: Option<tokio::task::JoinHandle<()>>,
}

impl Cluster {
    /// A cluster with the shipped definition of MPIJobs. The operator is not started.
    pub(crate) fn new(script: Script) -> Self {
        Self::with_definition(script, DEFINITION)
    }

    /// A cluster with this definition of a job.
    pub(crate) fn with_definition(script: Script, definition: &str) -> Self {
        let node = NodeConfig {
            name: "here".to_owned(),
            ip: "127.0.0.1".to_owned(),
            cpu: "800".to_owned(),
            memory: "1600Gi".to_owned(),
            extended: Vec::new(),
            pods: 1100,
        };
        let config = Config {
            node: Some(node),
            ..Config::default()
        };
        let logs = |_| -> LogStream { Box::pin(futures::stream::empty()) };
        let shared = Shared::new(minicluster::Cluster::new(config), now, logs);
        let uri = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let request = http::Request::post(uri)
            .header("content-type", "application/yaml")
            .body(definition.as_bytes().to_vec())
            .expect("the parts are valid");
        let answer = shared.handle(request);
        assert_eq!(
            answer.status(),
            201,
            "the definition was refused: {answer:?}"
        );
        let orders = Arc::default();
        tokio::spawn(drive(shared.clone(), script, Arc::clone(&orders)));
        Self {
            client: kube::Client::new(shared.service(), "default"),
            faults: Faults::new(&shared),
            site: Site::default(),
            orders,
            operator: None,
        }
    }

    /// The API server loses its history and every watch, as when it restarts: all kinds are listed
    /// again.
    pub(crate) fn restart_api_server(&self) {
        let expired = json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": 410, "reason": "Expired", "message": "too old resource version",
        }});
        let expired = Fault::Canned(Duration::ZERO, 200, format!("{expired}\n"));
        for line in ["WATCH mpijobs", "WATCH pods"] {
            self.faults.inject(line, 1, expired.clone());
        }
        self.faults.cut_watches();
    }

    /// Starts the operator; one that runs already is killed first.
    pub(crate) fn start_operator(&mut self) {
        self.stop_operator();
        let client = kube::Client::new(self.faults.clone(), "default");
        let scope = controller::Scope {
            site: self.site.clone(),
            namespace: None,
            concurrency: 2,
            clock: now,
            nonce: controller::nonce,
            keys: controller::KeySource::FRESH,
        };
        let operator = controller::operate(client, scope, std::future::pending());
        self.operator = Some(tokio::spawn(async move {
            operator.await.expect("the operator is not told to stop");
        }));
    }

    /// Starts an operator beside the one that runs: both believe to lead.
    pub(crate) fn start_another_operator(&mut self) {
        // Without its handle, the first one runs until the test ends.
        drop(self.operator.take());
        self.start_operator();
    }

    /// Kills the operator.
    pub(crate) fn stop_operator(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.abort();
        }
    }

    pub(crate) fn orders(&self) -> Vec<Order> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.clone()
    }

    pub(crate) fn api(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
    ) -> Api<DynamicObject> {
        let api_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    pub(crate) fn jobs(&self) -> Api<DynamicObject> {
        self.api("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
    }

    pub(crate) fn pods(&self) -> Api<DynamicObject> {
        self.api("", "v1", "Pod", "pods")
    }

    pub(crate) fn launchers(&self) -> Api<DynamicObject> {
        self.api("batch", "v1", "Job", "jobs")
    }

    pub(crate) async fn create(&self, api: &Api<DynamicObject>, object: Value) -> DynamicObject {
        let object = serde_json::from_value(object).expect("it is an object");
        let created = api.create(&PostParams::default(), &object).await;
        created.expect("the object is valid and new")
    }

    pub(crate) async fn patch(&self, api: &Api<DynamicObject>, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = api.patch(name, &params, &patch).await;
        patched.expect("the object exists and the patch is valid");
    }

    pub(crate) async fn patch_status(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.jobs().patch_status(name, &params, &patch).await;
        patched.expect("the job exists and the patch is valid");
    }

    pub(crate) async fn delete(&self, api: &Api<DynamicObject>, name: &str) {
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted.expect("the object exists");
    }

    /// Creates an MPIJob.
    pub(crate) async fn submit(&self, job: Value) {
        self.create(&self.jobs(), job).await;
    }

    /// Returns the job once it meets a condition.
    pub(crate) async fn until(&self, name: &str, kind: &str) -> DynamicObject {
        let met = |job: &DynamicObject| condition(job, kind).is_some();
        self.until_job(name, &format!("{name} to be {kind}"), met)
            .await
    }

    /// Returns the job once it is as `wanted`.
    pub(crate) async fn until_job(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let (deadline, jobs) = (Instant::now() + PATIENCE, self.jobs());
        loop {
            let job = jobs.get(name).await.expect("the job exists");
            if wanted(&job) {
                return job;
            }
            assert!(Instant::now() < deadline, "waited for {what}: {}", job.data);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns once `met` holds.
    pub(crate) async fn until_met(&self, what: &str, met: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !met().await {
            assert!(Instant::now() < deadline, "waited for {what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Lets simulated time pass.
    pub(crate) async fn pass(&self, secs: u64) {
        tokio::time::sleep(Duration::from_secs(secs)).await;
    }
}

/// The condition of this type, if it is met.
pub(crate) fn condition<'a>(job: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    let conditions = job.data["status"]["conditions"].as_array()?;
    let mut met = conditions.iter().filter(|one| one["status"] == "True");
    met.find(|one| one["type"] == kind)
}

/// A job with two workers.
pub(crate) fn mpi_job(name: &str) -> Value {
    let template = |command: &str| {
        let container = json!({"name": "main", "image": "none", "command": [command]});
        json!({"spec": {"containers": [container]}})
    };
    json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template("mpirun")},
            "Worker": {"replicas": 2, "template": template("sshd")},
        }},
    })
}

/// Starts whatever is ordered; containers end as the script says, or when they are stopped.
async fn drive(shared: Shared, script: Script, orders: Arc<Mutex<Vec<Order>>>) {
    let mut addresses = 0;
    loop {
        for order in shared.tick() {
            let mut seen = orders.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(order.clone());
            drop(seen);
            carry_out(&shared, script, order, &mut addresses);
        }
        let wake = shared.with(|cluster, now| {
            let at = cluster.next_wake()?;
            Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
        });
        let wake = wake.unwrap_or(Duration::from_secs(3600));
        tokio::select! {
            () = shared.changed() => {}
            () = tokio::time::sleep(wake) => {}
        }
    }
}

fn carry_out(shared: &Shared, script: Script, order: Order, addresses: &mut u32) {
    let exited = |pod: PodRef, container: String, code: i32| PodReport::Exited {
        pod,
        container,
        code,
        signal: None,
        message: String::new(),
        oom: false,
    };
    match order {
        Order::Place { pod, .. } if matches!(script(&pod), Fate::NeverStarts) => {}
        Order::Place { pod, .. } => {
            *addresses += 1;
            let ip = format!("127.1.{}.{}", *addresses / 250, *addresses % 250);
            shared.report(PodReport::Placed { pod, ip });
        }
        Order::Start {
            pod,
            container,
            init,
            ..
        } => {
            shared.report(PodReport::Started {
                pod: pod.clone(),
                container: container.clone(),
            });
            match script(&pod) {
                _ if init => shared.report(exited(pod, container, 0)),
                Fate::Exits(code) => shared.report(exited(pod, container, code)),
                Fate::Runs | Fate::Yields | Fate::NeverStarts => {}
            }
        }
        Order::Stop { pod, container, .. } => {
            let code = match script(&pod) {
                Fate::Yields => 0,
                Fate::Runs | Fate::Exits(_) | Fate::NeverStarts => 143,
            };
            shared.report(exited(pod, container, code));
        }
        Order::Refresh { .. } | Order::Release { .. } => {}
    }
}
