//! Kueue decides when a job runs: it suspends the job, admits it, takes its room for a more important one,
//! and admits it again.

use std::fs;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::audit::{Audit, Request};
use e2e::cluster_fixture::deployed::USER;
use e2e::cluster_fixture::pi::{Mpi, User, held_pi};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, with_cluster};
use e2e::jobs::MpiJob;
use e2e::{Cluster, condition, wait_for};
use serde_json::{Value, json};

const QUEUE: &str = "jobs";
const IMPORTANT: &str = "important";
/// What a job of two workers asks for, which is also all that its queue has.
const PER_POD: &str = "100m";
const OF_ONE_JOB: &str = "300m";

#[test]
fn a_queued_job_is_held_admitted_preempted_requeued_and_ends() -> Result<()> {
    with_cluster("kueue", |fixture| {
        install(&fixture.cluster)?;
        let queue = ClusterQueue::closed(fixture)?;

        let low = fixture.submit(&queued(fixture, "low"))?;
        held(&low)?;
        let audit = Audit::from_now(&fixture.cluster)?;
        queue.await_workload("low", |workload| !is_admitted(workload))?;
        ensure_untouched(&audit, fixture, "low")?;

        queue.open()?;
        low.running()?;
        queue.await_workload("low", is_admitted)?;
        queue.await_usage(OF_ONE_JOB)?;

        let class = "/metadata/labels/kueue.x-k8s.io~1priority-class";
        let high = fixture.submit(&queued(fixture, "high").with(class, IMPORTANT))?;
        held(&low)?;
        low.has_no_pods()?;
        inactive(&low)?;
        let audit = Audit::from_now(&fixture.cluster)?;
        high.running()?;
        queue.await_usage(OF_ONE_JOB)?;
        ensure_untouched(&audit, fixture, "low")?;
        high.release()?;
        high.succeeded_on_workers(2)?;

        low.running()?;
        low.release()?;
        low.succeeded_on_workers(2)?;
        queue.await_usage("0")
    })
}

/// A job for the queue, whose launcher waits until the test lets it go on.
fn queued(fixture: &ClusterFixture, name: &str) -> MpiJob {
    let job = held_pi(Mpi::OpenMpi4, User::Root, 2);
    let job = job
        .with("/metadata/name", name)
        .with("/metadata/namespace", fixture.namespace.as_str())
        .with("/metadata/labels/kueue.x-k8s.io~1queue-name", QUEUE);
    ["Launcher", "Worker"].into_iter().fold(job, |job, role| {
        let place = format!("/spec/mpiReplicaSpecs/{role}/template/spec/containers/0/resources");
        job.with(&place, json!({"requests": {"cpu": PER_POD}}))
    })
}

/// Waits until the job is suspended, and has said so.
fn held(job: &Submitted<'_>) -> Result<Value> {
    job.until("condition Suspended", |job| {
        job["spec"]["runPolicy"]["suspend"] == true && condition(job, "Suspended") == Some("True")
    })
}

/// Waits until the status counts no pod as active: Kueue takes the room for free only then.
fn inactive(job: &Submitted<'_>) -> Result<Value> {
    job.until("no active pods", |job| {
        let roles = job["status"]["replicaStatuses"].as_object();
        let mut roles = roles.into_iter().flatten();
        roles.all(|(_, counts)| counts["active"].as_u64().unwrap_or(0) == 0)
    })
}

/// The operator has changed nothing of this job.
fn ensure_untouched(audit: &Audit, fixture: &ClusterFixture, job: &str) -> Result<()> {
    let of_job = |write: &Request| {
        let name = write.name.strip_prefix(job);
        write.namespace == fixture.namespace
            && name.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut writes = audit.writes_of(USER)?;
    writes.retain(of_job);
    ensure!(writes.is_empty(), "written while suspended: {writes:#?}");
    Ok(())
}

fn is_admitted(workload: &Value) -> bool {
    condition(workload, "Admitted") == Some("True")
}

/// A queue with room for one job, and the way to it from the test's namespace.
struct ClusterQueue<'a> {
    fixture: &'a ClusterFixture,
}

impl<'a> ClusterQueue<'a> {
    /// It admits nothing yet.
    fn closed(fixture: &'a ClusterFixture) -> Result<Self> {
        let name = &fixture.namespace;
        let flavors = json!([{"name": "default-flavor",
            "resources": [{"name": "cpu", "nominalQuota": OF_ONE_JOB}]}]);
        for object in [
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
                "metadata": {"name": name},
                "spec": {
                    "namespaceSelector": {},
                    "stopPolicy": "Hold",
                    "preemption": {"withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
                },
            }),
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                "metadata": {"name": QUEUE, "namespace": name},
                "spec": {"clusterQueue": name},
            }),
        ] {
            fixture.cluster.apply(&object.to_string())?;
        }
        Ok(Self { fixture })
    }

    fn open(&self) -> Result<()> {
        let name = &self.fixture.namespace;
        let patch = json!({"spec": {"stopPolicy": "None"}});
        self.fixture
            .patch("clusterqueue.kueue.x-k8s.io", name, &patch)
    }

    /// Waits for the one workload of a job to be as wanted.
    fn await_workload(&self, job: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        wait_for(&format!("the workload of {job}"), PATIENCE, || {
            let (cluster, namespace) = (&self.fixture.cluster, &self.fixture.namespace);
            let mut workloads = cluster.list(namespace, "workloads.kueue.x-k8s.io", "")?;
            let owner = |workload: &Value| workload["metadata"]["ownerReferences"][0].clone();
            workloads.retain(|workload| {
                let name = owner(workload)["name"].as_str().map(str::to_owned);
                name.is_some_and(|name| name == job || name.starts_with(&format!("{job}-")))
            });
            ensure!(workloads.len() <= 1, "counted twice: {workloads:#?}");
            Ok(workloads.first().filter(|one| holds(one)).map(drop))
        })
    }

    /// Waits until so much of the queue is taken.
    fn await_usage(&self, wanted: &str) -> Result<()> {
        wait_for(&format!("{wanted} in use"), PATIENCE, || {
            let (cluster, name) = (&self.fixture.cluster, &self.fixture.namespace);
            let queue = cluster.get(name, "clusterqueue.kueue.x-k8s.io", name)?;
            let queue = queue.context("the queue is gone")?;
            let total = &queue["status"]["flavorsReservation"][0]["resources"][0]["total"];
            Ok((total == wanted).then_some(()))
        })
    }
}

/// Installs Kueue once for all tests.
fn install(cluster: &Cluster) -> Result<()> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed =
        INSTALLED.get_or_init(|| try_install(cluster).map_err(|error| format!("{error:#}")));
    let installed = installed.clone();
    installed.map_err(|error| anyhow!("Kueue cannot be installed: {error}"))
}

fn try_install(cluster: &Cluster) -> Result<()> {
    let manifest = std::env::var("MUSTER_E2E_KUEUE")
        .context("MUSTER_E2E_KUEUE is not set: run `cargo xtask test --only queues`")?;
    let manifest = fs::read_to_string(&manifest).with_context(|| format!("reading {manifest}"))?;
    // The definitions are too long for the annotation that a client-side apply writes.
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    cluster.kubectl_with(&apply, &manifest)?;
    let deployment = "deployment/kueue-controller-manager";
    let wait = ["rollout", "status", "-n", "kueue-system", deployment];
    cluster.kubectl(&[&wait[..], &["--timeout=180s"]].concat())?;
    // Its webhooks answer a moment after its pod is Ready.
    let flavor = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
        "metadata": {"name": "default-flavor"},
    });
    wait_for("Kueue's webhooks", PATIENCE, || {
        Ok(cluster.apply(&flavor.to_string()).ok())
    })?;
    let class = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
        "metadata": {"name": IMPORTANT}, "value": 1000,
    });
    cluster.apply(&class.to_string())?;
    Ok(())
}
