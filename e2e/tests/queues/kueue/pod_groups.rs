//! Kueue knows no job of T9k: it admits the pods of one as a group. It deletes them to take their room, and
//! the operator makes them again.

use anyhow::{Context, Result, ensure};
use e2e::audit::{Audit, Request};
use e2e::cluster_fixture::pi::{HELD, Mpi, PI, User, pi};
use e2e::cluster_fixture::watch::Recording;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, with_cluster};
use e2e::wait_for;
use serde_json::{Value, json};

use super::cluster_queue::ClusterQueue;
use super::{
    IMPORTANT, PER_POD, QUEUE, WORKLOADS, ensure_untouched, install, is_admitted,
    never_counted_twice,
};

/// The jobs' resource, spelled so that no other group's can be meant.
const T9K_JOBS: &str = "mpijobs.batch.tensorstack.dev";
/// Its launcher asks for nothing. The queue has room for one job and a half.
const OF_TWO_WORKERS: &str = "200m";

#[test]
fn a_job_of_t9k_is_held_admitted_preempted_requeued_and_ends() -> Result<()> {
    with_cluster("kueue-t9k", |fixture| {
        install(&fixture.cluster)?;
        let queue = ClusterQueue::closed(fixture)?;
        let workloads = Recording::start(fixture, &[WORKLOADS])?;

        let low = T9k::submit(fixture, "low", json!({}))?;
        low.held()?;
        let audit = Audit::from_now(&fixture.cluster)?;
        queue.await_workload("low", |workload| !is_admitted(workload))?;
        // The operator is awake meanwhile: it runs a job that is in no queue.
        let other = pi(Mpi::OpenMpi4, User::Root, 2).with("/metadata/name", "other");
        fixture.submit(&other)?.succeeded_on_workers(2)?;
        queue.open()?;
        low.runs()?;
        ensure_untouched(&audit, fixture, "low", starts_pod)?;
        queue.await_workload("low", is_admitted)?;
        queue.await_usage(OF_TWO_WORKERS)?;
        let before = low.uids()?;

        let class = json!({"kueue.x-k8s.io/priority-class": IMPORTANT});
        let high = T9k::submit(fixture, "high", class)?;
        high.runs()?;
        low.held()?;
        let audit = Audit::from_now(&fixture.cluster)?;
        queue.await_usage(OF_TWO_WORKERS)?;
        let after = low.uids()?;
        ensure!(
            before.iter().all(|uid| !after.contains(uid)),
            "{before:?} {after:?}"
        );
        high.finish()?;

        low.runs()?;
        ensure_untouched(&audit, fixture, "low", starts_pod)?;
        low.finish()?;
        queue.await_usage("0")?;
        never_counted_twice(&workloads)
    })
}

/// Kueue lets a pod of the job start.
fn starts_pod(request: &Request, job: &str) -> bool {
    let rest = request.name.strip_prefix(job);
    request.resource == "pods"
        && request.verb == "patch"
        && rest.is_some_and(|rest| rest.starts_with('-'))
}

/// A job of T9k in the queue, whose two ranks wait until they are told to go on.
struct T9k<'a> {
    fixture: &'a ClusterFixture,
    name: &'static str,
}

impl<'a> T9k<'a> {
    fn submit(fixture: &'a ClusterFixture, name: &'static str, labels: Value) -> Result<Self> {
        let mut job = json!({
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "MPIJob",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "worker": {
                    "replicas": 2,
                    "extraMPIArgs": ["-N", "1", "--allow-run-as-root"],
                    "cmd": ["sh", "-c", HELD, "held", PI],
                    "template": {"spec": {"containers": [{
                        "name": "mpi-worker",
                        "image": "muster.test/openmpi4:1",
                        "imagePullPolicy": "Never",
                        "resources": {"requests": {"cpu": PER_POD}},
                    }]}},
                },
                "runPolicy": {"cleanUpWorkers": true},
                "ssh": {"sshdPath": "/usr/sbin/sshd"},
                "mpiHome": "/usr",
            },
        });
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = QUEUE.into();
        fixture.create(&job)?;
        Ok(Self { fixture, name })
    }

    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let what = format!("{} of {}", what, self.name);
        let field = format!("--field-selector=metadata.name={}", self.name);
        let query = [T9K_JOBS, &field];
        self.fixture.watch(&what, &query, PATIENCE, |seen| {
            let Some(job) = seen.get(self.name) else {
                return Ok(None);
            };
            if holds(job) {
                return Ok(Some(()));
            }
            let status = &job["status"];
            ensure!(status["phase"] != "Failed", "it failed: {status}");
            Ok(None)
        })
    }

    /// Waits until all pods are there, none may start, and the status says so.
    fn held(&self) -> Result<()> {
        self.until("the reason Queued", |job| {
            let status = &job["status"];
            status["muster"]["reason"] == "Queued" && status["aggregate"]["pending"] == 3
        })?;
        for pod in self.pods()? {
            let gates = pod["spec"]["schedulingGates"].to_string();
            ensure!(gates.contains("kueue.x-k8s.io/admission"), "{gates}");
            ensure!(pod["spec"]["nodeName"].is_null(), "{}", pod["spec"]);
        }
        self.counted()
    }

    /// Waits until Kueue has counted these very pods.
    fn counted(&self) -> Result<()> {
        let (cluster, namespace) = (&self.fixture.cluster, &self.fixture.namespace);
        wait_for("a workload of its pods", PATIENCE, || {
            let Some(workload) = cluster.get(namespace, WORKLOADS, self.name)? else {
                return Ok(None);
            };
            let metadata = &workload["metadata"];
            let owners = metadata["ownerReferences"].to_string();
            let uids = self.uids()?;
            let counted = metadata["deletionTimestamp"].is_null()
                && uids.iter().all(|uid| owners.contains(uid.as_str()));
            Ok(counted.then_some(()))
        })
    }

    fn runs(&self) -> Result<()> {
        self.until("phase Running", |job| {
            job["status"]["phase"] == "Running" && job["status"]["aggregate"]["running"] == 3
        })
    }

    /// Lets the ranks go on, and waits until the job has succeeded.
    fn finish(&self) -> Result<()> {
        let workers = [0, 1].map(|index| format!("{}-worker-{index}", self.name));
        for worker in &workers {
            self.fixture.exec(worker, &["touch", "/tmp/go"])?;
        }
        self.until("phase Succeeded", |job| {
            job["status"]["phase"] == "Succeeded"
        })?;
        let log = self.fixture.log(&format!("{}-launcher", self.name))?;
        log.expect(2, &workers.each_ref().map(String::as_str))
    }

    fn pods(&self) -> Result<Vec<Value>> {
        let (fixture, selector) = (self.fixture, format!("mpijob={}", self.name));
        wait_for("three pods", PATIENCE, || {
            let pods = fixture
                .cluster
                .list(&fixture.namespace, "pods", &selector)?;
            Ok((pods.len() == 3).then_some(pods))
        })
    }

    fn uids(&self) -> Result<Vec<String>> {
        let pods = self.pods()?;
        let uids = pods.iter().map(|pod| pod["metadata"]["uid"].as_str());
        let uids = uids.map(|uid| uid.map(str::to_owned).context("a pod without a UID"));
        uids.collect()
    }
}
