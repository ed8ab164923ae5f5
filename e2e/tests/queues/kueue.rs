//! Kueue decides when a job runs: it suspends the job, admits it, takes its room for a more important one,
//! and admits it again; or it hands the job to another cluster.

mod cluster_queue;
mod pod_groups;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::audit::{Audit, Request};
use e2e::cluster_fixture::deployed::USER;
use e2e::cluster_fixture::pi::{HELD, Mpi, PI, User, held_pi, pi};
use e2e::cluster_fixture::submitted::Submitted;
use e2e::cluster_fixture::watch::Recording;
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, repository, with_cluster};
use e2e::flyte::program;
use e2e::jobs::MpiJob;
use e2e::{Cluster, condition, wait_for};
use serde_json::{Value, json};

use crate::install::{Installed, Other};
use cluster_queue::ClusterQueue;

const QUEUE: &str = "jobs";
const QUEUE_NAME: &str = "/metadata/labels/kueue.x-k8s.io~1queue-name";
const PRIORITY_CLASS: &str = "/metadata/labels/kueue.x-k8s.io~1priority-class";
const IMPORTANT: &str = "important";
const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";
const WORKLOADS: &str = "workloads.kueue.x-k8s.io";
/// Who Kueue is to the API server.
const KUEUE_USER: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";
/// What a job of two workers asks for, which is also all that its queue has.
const PER_POD: &str = "100m";
const OF_ONE_JOB: &str = "300m";

#[test]
fn a_queued_job_is_held_admitted_preempted_requeued_and_ends() -> Result<()> {
    with_cluster("kueue", |fixture| {
        let finish = |low: &Submitted<'_>| {
            low.release()?;
            low.succeeded_on_workers(2).map(drop)
        };
        story(fixture, || fixture.submit(&queued(fixture, "low")), finish)
    })
}

/// Kueue knows no `kubeflow.org/v1`. The API server shows it the same job as `v2beta1`.
#[test]
fn a_job_of_the_training_sdk_is_held_admitted_preempted_requeued_and_ends() -> Result<()> {
    with_cluster("kueue-v1", |fixture| {
        let finish = |low: &Submitted<'_>| {
            let pod = low.launcher();
            let namespace = &fixture.namespace;
            let touch = ["exec", "-n", namespace, &pod, "--", "touch", "/tmp/go"];
            fixture.cluster.kubectl(&touch)?;
            low.succeeded()?;
            fixture
                .log(&pod)?
                .expect(2, &["low-worker-0", "low-worker-1"])
        };
        story(fixture, || by_the_sdk(fixture, "low"), finish)
    })
}

/// What happens to a job that has to make room for a more important one. Its launcher waits until it is
/// told to finish.
fn story<'a>(
    fixture: &'a ClusterFixture,
    submit: impl FnOnce() -> Result<Submitted<'a>>,
    finish: impl FnOnce(&Submitted<'a>) -> Result<()>,
) -> Result<()> {
    install(&fixture.cluster)?;
    let queue = ClusterQueue::closed(fixture)?;
    let workloads = Recording::start(fixture, &[WORKLOADS])?;

    let low = submit()?;
    held(&low)?;
    let audit = Audit::from_now(&fixture.cluster)?;
    queue.await_workload("low", |workload| !is_admitted(workload))?;
    // The operator is awake meanwhile: it runs a job that is in no queue.
    let other = pi(Mpi::OpenMpi4, User::Root, 2).with("/metadata/name", "other");
    fixture.submit(&other)?.succeeded_on_workers(2)?;
    queue.open()?;
    low.running()?;
    ensure_untouched(&audit, fixture, "low", resumes)?;
    queue.await_workload("low", is_admitted)?;
    queue.await_usage(OF_ONE_JOB)?;

    let high = fixture.submit(&queued(fixture, "high").with(PRIORITY_CLASS, IMPORTANT))?;
    held(&low)?;
    low.has_no_pods()?;
    inactive(&low)?;
    let audit = Audit::from_now(&fixture.cluster)?;
    high.running()?;
    queue.await_usage(OF_ONE_JOB)?;
    high.release()?;
    high.succeeded_on_workers(2)?;

    low.running()?;
    ensure_untouched(&audit, fixture, "low", resumes)?;
    finish(&low)?;
    queue.await_usage("0")?;
    never_counted_twice(&workloads)
}

/// A job for the queue that Kubeflow's training SDK creates.
fn by_the_sdk<'a>(fixture: &'a ClusterFixture, name: &str) -> Result<Submitted<'a>> {
    let mpirun = ["mpirun", "--allow-run-as-root", "-n", "2", PI];
    let output = Command::new(program("MUSTER_E2E_SDK")?)
        .arg(repository().join("e2e/sdk/queued.py"))
        .arg(fixture.cluster.kubeconfig())
        .args([&fixture.namespace, "muster.test/openmpi4-nossh:1", name])
        .args([QUEUE, PER_POD, "sh", "-c", HELD, "held"])
        .args(mpirun)
        .output()
        .context("starting the SDK's Python")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(fixture.submitted(name))
}

/// A job for the queue, whose launcher waits until the test lets it go on.
fn queued(fixture: &ClusterFixture, name: &str) -> MpiJob {
    let job = held_pi(Mpi::OpenMpi4, User::Root, 2);
    let job = job
        .with("/metadata/name", name)
        .with("/metadata/namespace", fixture.namespace.as_str())
        .with(QUEUE_NAME, QUEUE);
    ["Launcher", "Worker"].into_iter().fold(job, |job, role| {
        let place = format!("/spec/mpiReplicaSpecs/{role}/template/spec/containers/0/resources");
        job.with(&place, json!({"requests": {"cpu": PER_POD}}))
    })
}

/// With a check of MultiKueue on its queue, a job is another cluster's.
#[test]
fn a_job_that_kueue_hands_to_another_cluster_is_left_alone() -> Result<()> {
    with_cluster("multikueue-real", |fixture| {
        install(&fixture.cluster)?;
        let queue = ClusterQueue::closed(fixture)?;
        queue.hand_over()?;
        let audit = Audit::from_now(&fixture.cluster)?;
        let theirs = fixture.submit(&queued(fixture, "theirs"))?;
        let manager = theirs.get()?["spec"]["runPolicy"]["managedBy"].take();
        ensure!(manager == MULTIKUEUE, "it is managed by {manager}");
        queue.await_workload("theirs", |_| true)?;
        // A job that came later and is over proves that the operator has seen the first one too.
        let ours = pi(Mpi::OpenMpi4, User::Root, 2).with("/metadata/name", "ours");
        fixture.submit(&ours)?.succeeded_on_workers(2)?;
        let status = theirs.get()?["status"].take();
        ensure!(status.is_null(), "it has a status: {status}");
        theirs.has_no_pods()?;
        let mut writes = audit.writes_of(USER)?;
        writes.retain(|write| write.namespace == fixture.namespace);
        writes.retain(|write| write.name.starts_with("theirs"));
        ensure!(writes.is_empty(), "{writes:#?}");
        Ok(())
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

/// Kueue resumes the job.
fn resumes(request: &Request, job: &str) -> bool {
    (request.resource.as_str(), request.name.as_str()) == ("mpijobs", job)
}

/// Until Kueue's write that starts the job, the operator only said, once, that the job waits.
fn ensure_untouched(
    audit: &Audit,
    fixture: &ClusterFixture,
    job: &str,
    starts: fn(&Request, &str) -> bool,
) -> Result<()> {
    let requests = audit.requests_in(&fixture.namespace)?;
    let starts = |request: &Request| {
        request.is_write() && request.user == KUEUE_USER && starts(request, job)
    };
    let started = requests.iter().position(starts);
    let held = &requests[..started.context("Kueue has not started the job")?];
    let of_job = |write: &&Request| {
        let name = write.name.strip_prefix(job);
        write.user == USER
            && write.is_write()
            && name.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let writes = held.iter().filter(of_job);
    let (said, done): (Vec<_>, Vec<_>) =
        writes.partition(|write| write.resource == "mpijobs/status");
    ensure!(
        done.is_empty() && said.len() <= 1,
        "written while held: {said:#?} {done:#?}"
    );
    Ok(())
}

/// At no time did a job have two workloads, nor all workloads together more than the queue's room.
fn never_counted_twice(workloads: &Recording) -> Result<()> {
    let mut now = BTreeMap::new();
    let (mut admissions, mut most) = (0, 0);
    for mut event in workloads.events()? {
        let workload = event["object"].take();
        let name = workload["metadata"]["name"].to_string();
        if event["type"] == "DELETED" {
            now.remove(&name);
        } else {
            now.insert(name, workload);
        }
        let owners: Vec<_> = now.values().filter_map(owner).collect();
        let distinct: BTreeSet<_> = owners.iter().collect();
        ensure!(owners.len() == distinct.len(), "{owners:?}");
        let taken: u64 = now.values().map(room).sum();
        ensure!(taken <= room_of(OF_ONE_JOB), "{taken}m for {owners:?}");
        most = most.max(taken);
        admissions = admissions.max(now.values().filter(|one| is_admitted(one)).count());
    }
    ensure!(admissions > 0, "no workload was ever seen to be admitted");
    ensure!(most > 0, "no workload was ever seen to take room");
    Ok(())
}

/// Thousandths of a processor that a workload holds. Pods that have succeeded give back theirs: Kueue keeps
/// account of them for groups.
fn room(workload: &Value) -> u64 {
    let status = &workload["status"];
    let holds = condition(workload, "QuotaReserved") == Some("True")
        && condition(workload, "Finished") != Some("True");
    let sets = status["admission"]["podSetAssignments"].as_array();
    let sets = sets.into_iter().flatten().filter(|_| holds);
    sets.map(|set| {
        let usage = set["resourceUsage"]["cpu"].as_str().map_or(0, room_of);
        let returned = status["reclaimablePods"].as_array().into_iter().flatten();
        let mut returned = returned.filter(|one| one["name"] == set["name"]);
        let returned = returned.next().and_then(|one| one["count"].as_u64());
        let count = set["count"].as_u64().unwrap_or(1).max(1);
        usage * count.saturating_sub(returned.unwrap_or(0)) / count
    })
    .sum()
}

/// A quantity of processors as Kueue writes it here: `300m`, or whole ones. Another spelling is too much.
fn room_of(cpu: &str) -> u64 {
    const TOO_MUCH: u64 = 1_000_000;
    match cpu.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().unwrap_or(TOO_MUCH),
        None => cpu.parse().map_or(TOO_MUCH, |whole: u64| whole * 1000),
    }
}

/// The job that a workload stands for. A group of pods has the job's name.
fn owner(workload: &Value) -> Option<&str> {
    let metadata = &workload["metadata"];
    match metadata["annotations"]["kueue.x-k8s.io/is-group-workload"] == "true" {
        true => metadata["name"].as_str(),
        false => metadata["ownerReferences"][0]["name"].as_str(),
    }
}

fn is_admitted(workload: &Value) -> bool {
    condition(workload, "Admitted") == Some("True")
}

const KUEUE: Other = Other {
    name: "Kueue",
    variable: "MUSTER_E2E_KUEUE",
    namespace: "kueue-system",
    deployments: &["kueue-controller-manager"],
};

pub(crate) fn install(cluster: &Cluster) -> Result<()> {
    static INSTALLED: Installed = Installed::new();
    KUEUE.install(&INSTALLED, cluster, || {
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
        cluster.apply(&class.to_string()).map(drop)
    })
}

#[test]
fn pods_that_have_succeeded_take_no_room() {
    let mut workload = json!({"status": {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admission": {"podSetAssignments": [
            {"name": "a", "count": 1, "resourceUsage": {"cpu": "1"}},
            {"name": "b", "count": 2, "resourceUsage": {"cpu": "200m"}},
        ]},
    }});
    assert_eq!(room(&workload), 1200);
    workload["status"]["reclaimablePods"] = json!([{"name": "b", "count": 1}]);
    assert_eq!(room(&workload), 1100);
    workload["status"]["conditions"][0]["status"] = "False".into();
    assert_eq!(room(&workload), 0);
}
