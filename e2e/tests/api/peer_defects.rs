//! Twelve defects that were found in the Kubeflow operator, one test each: none of them happens here.
//! The fifth is in `suspension.rs`, beside the other tests of resuming.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, name, uid};
use e2e::audit::{Audit, Request};
use e2e::fake_kubelet::{Behaviour, ENDS_AFTER_MS, FakeKubelet};
use e2e::jobs::MpiJob;
use e2e::relay::Relay;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use super::fixture::new_fixture;

const JOB_CONTROLLER: &str = "system:serviceaccount:kube-system:job-controller";
/// An operator that has not done it by then is not going to.
const LOOKED_AGAIN: Duration = Duration::from_secs(3);
const EVICTED: PodState<'static> = PodState::Failed {
    reason: "Evicted",
    message: "The node was low on resource: memory.",
};

fn kubelet(fixture: &ApiFixture) -> Result<FakeKubelet> {
    FakeKubelet::start(&fixture.api, &fixture.namespace, Behaviour::default())
}

/// A job whose launcher ends well this long after it started.
fn short(name: &str, after_ms: u32) -> MpiJob {
    let key = ENDS_AFTER_MS.replace('/', "~1");
    let path = format!("/spec/mpiReplicaSpecs/Launcher/template/metadata/annotations/{key}");
    MpiJob::named(name)
        .workers(2)
        .with(&path, after_ms.to_string())
}

/// How often a launcher's program was started in this namespace.
fn launchers_started(audit: &Audit, fixture: &ApiFixture) -> Result<usize> {
    let is_start = |request: &&Request| {
        request.user == JOB_CONTROLLER && request.verb == "create" && request.resource == "pods"
    };
    let requests = audit.requests_in(&fixture.namespace)?;
    Ok(requests.iter().filter(is_start).count())
}

fn scale(fixture: &ApiFixture, workers: u32) -> Result<Value> {
    let replicas = json!({"Worker": {"replicas": workers}});
    fixture.edit("pi", &json!({"spec": {"mpiReplicaSpecs": replicas}}))
}

/// Makes the operator look at a job once more, and gives it time to do what it must not.
fn look_again(fixture: &ApiFixture, job: &str) -> Result<()> {
    fixture.edit(job, &json!({"metadata": {"labels": {"look": "again"}}}))?;
    std::thread::sleep(LOOKED_AGAIN);
    Ok(())
}

#[test]
fn peer_defect_01_a_finished_job_never_runs_again() -> Result<()> {
    let fixture = new_fixture("peer-01")?;
    let (_kubelet, audit) = (kubelet(&fixture)?, Audit::from_now(&fixture.cluster)?);
    let operator = fixture.operator()?;
    let jobs: Vec<String> = (0..10).map(|index| format!("short-{index}")).collect();
    for job in &jobs {
        fixture.submit(&short(job, 100).ttl_secs(0))?;
    }
    for job in &jobs {
        fixture.await_condition(job, "Succeeded")?;
        wait_for("the launcher's Job to go", SOON, || {
            let launcher = fixture.get("jobs", &format!("{job}-launcher"))?;
            Ok(launcher.is_none().then_some(()))
        })?;
        fixture.edit(job, &json!({"metadata": {"labels": {"look": "again"}}}))?;
    }
    fixture.submit(&short("outlived", 1000).ttl_secs(0))?;
    fixture.await_condition("outlived", "Running")?;
    operator.terminate()?;
    wait_for("the operator to end", SOON, || operator.ended())?;
    // Longer than the program, its Job and its time to live.
    std::thread::sleep(LOOKED_AGAIN);
    let _next = fixture.operator()?;
    fixture.await_condition("outlived", "Succeeded")?;
    look_again(&fixture, "outlived")?;
    let started = launchers_started(&audit, &fixture)?;
    ensure!(
        started == jobs.len() + 1,
        "{started} launchers were started"
    );
    Ok(())
}

/// A job that failed because a worker was evicted while its launcher ran on.
fn evicted(fixture: &ApiFixture) -> Result<Value> {
    fixture.submit(&MpiJob::named("pi").workers(2).clean_pod_policy("Running"))?;
    fixture.await_condition("pi", "Running")?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    fixture.set(&workers[1..], EVICTED)?;
    fixture.await_condition("pi", "Failed")
}

#[test]
fn peer_defect_02_a_failed_job_never_becomes_succeeded() -> Result<()> {
    let fixture = new_fixture("peer-02")?;
    // The launcher takes its time to go, and ends well meanwhile.
    let slow = Behaviour {
        stop_after: Duration::from_secs(2),
        ..Behaviour::default()
    };
    let kubelet = FakeKubelet::start(&fixture.api, &fixture.namespace, slow)?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.await_condition("pi", "Running")?;
    let launchers = fixture.await_pods("pi", "launcher", 1)?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    fixture.set(&workers[1..], EVICTED)?;
    let failed = fixture.await_condition("pi", "Failed")?;
    kubelet.end(name(&launchers[0]), 0)?;
    look_again(&fixture, "pi")?;
    let job = fixture.job("pi")?;
    ensure!(
        condition(&job, "Failed") == Some("True"),
        "{}",
        job["status"]
    );
    ensure!(
        condition(&job, "Succeeded") != Some("True"),
        "{}",
        job["status"]
    );
    let end = "completionTime";
    ensure!(
        job["status"][end] == failed["status"][end],
        "{}",
        job["status"]
    );
    Ok(())
}

#[test]
fn peer_defect_03_an_evicted_worker_ends_the_job_and_all_is_cleaned_up() -> Result<()> {
    let fixture = new_fixture("peer-03")?;
    let _kubelet = kubelet(&fixture)?;
    let _operator = fixture.operator()?;
    let job = evicted(&fixture)?;
    ensure!(
        job["status"]["completionTime"].is_string(),
        "{}",
        job["status"]
    );
    fixture.await_pods("pi", "launcher", 0)?;
    let left = fixture.await_pods("pi", "worker", 1)?;
    ensure!(
        left[0]["status"]["reason"] == "Evicted",
        "the evidence is gone"
    );
    Ok(())
}

#[test]
fn peer_defect_04_a_started_job_is_resumed_with_the_shipped_rights() -> Result<()> {
    let fixture = new_fixture("peer-04")?;
    let (_kubelet, audit) = (kubelet(&fixture)?, Audit::from_now(&fixture.cluster)?);
    let _operator = fixture.operator()?;
    let suspend =
        |suspend: bool| fixture.edit("pi", &json!({"spec": {"runPolicy": {"suspend": suspend}}}));
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.await_condition("pi", "Running")?;
    let first = fixture.await_pods("pi", "launcher", 1)?;
    suspend(true)?;
    fixture.await_condition("pi", "Suspended")?;
    fixture.await_pods("pi", "launcher", 0)?;
    suspend(false)?;
    let second = fixture.await_pods("pi", "launcher", 1)?;
    ensure!(uid(&first[0]) != uid(&second[0]), "it was never suspended");
    fixture.await_condition("pi", "Running")?;
    audit.assert_never_forbidden(&fixture.account.user)
}

#[test]
fn peer_defect_06_a_worker_without_its_labels_does_not_open_the_gate() -> Result<()> {
    let fixture = new_fixture("peer-06")?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2).wait_for_workers())?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    let labels = workers[1]["metadata"]["labels"].as_object();
    let none: Value = labels
        .into_iter()
        .flatten()
        .map(|(key, _)| (key, Value::Null))
        .collect();
    let path = fixture.path("pods", name(&workers[1]));
    fixture
        .api
        .merge(&path, &json!({"metadata": {"labels": none}}))?;
    // All workers that a selector finds are Ready; the other one is not.
    fixture.set(&workers[..1], PodState::Ready)?;
    look_again(&fixture, "pi")?;
    let launcher = fixture.get("jobs", "pi-launcher")?;
    ensure!(
        launcher.is_none(),
        "the launcher did not wait for all workers"
    );
    let labels = json!({"metadata": {"labels": labels}});
    fixture.api.merge(&path, &labels)?;
    fixture.set(&workers, PodState::Ready)?;
    fixture.await_object("jobs", "pi-launcher")?;
    Ok(())
}

#[test]
fn peer_defect_07_scaling_down_beside_a_launcher_that_works_removes_the_last_worker() -> Result<()>
{
    let fixture = new_fixture("peer-07")?;
    let _kubelet = kubelet(&fixture)?;
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(3).launcher_as_worker())?;
    fixture.await_condition("pi", "Running")?;
    let before = fixture.await_pods("pi", "worker", 3)?;
    scale(&fixture, 2)?;
    let after = fixture.await_pods("pi", "worker", 2)?;
    for (before, after) in before.iter().zip(&after) {
        ensure!(uid(before) == uid(after), "{} was replaced", name(before));
    }
    look_again(&fixture, "pi")?;
    let later = fixture.await_pods("pi", "worker", 2)?;
    ensure!(uid(&later[0]) == uid(&before[0]) && uid(&later[1]) == uid(&before[1]));
    Ok(())
}

#[test]
fn peer_defect_08_workers_above_a_lowered_number_are_cleaned_up_too() -> Result<()> {
    let fixture = new_fixture("peer-08")?;
    let kubelet = kubelet(&fixture)?;
    let operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(4).clean_pod_policy("Running"))?;
    fixture.await_condition("pi", "Running")?;
    operator.terminate()?;
    wait_for("the operator to end", SOON, || operator.ended())?;
    // The next operator hears of both at once.
    scale(&fixture, 2)?;
    let launchers = fixture.await_pods("pi", "launcher", 1)?;
    kubelet.end(name(&launchers[0]), 0)?;
    let _next = fixture.operator()?;
    fixture.await_condition("pi", "Succeeded")?;
    fixture.await_pods("pi", "worker", 0)?;
    Ok(())
}

#[test]
fn peer_defect_09_the_deadline_counts_before_there_is_a_launcher() -> Result<()> {
    let fixture = new_fixture("peer-09")?;
    let _operator = fixture.operator()?;
    let job = MpiJob::named("pi").workers(2).wait_for_workers();
    fixture.submit(&job.deadline_secs(3).clean_pod_policy("Running"))?;
    fixture.await_pods("pi", "worker", 2)?;
    let job = fixture.await_condition("pi", "Failed")?;
    let conditions = job["status"]["conditions"].as_array();
    let told = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["reason"] == "DeadlineExceeded");
    ensure!(told, "{}", job["status"]);
    ensure!(
        fixture.get("jobs", "pi-launcher")?.is_none(),
        "it got a launcher"
    );
    fixture.await_pods("pi", "worker", 0)?;
    Ok(())
}

/// The shipped CRD refuses it. Where another CRD has let it pass, the operator does: `bad_input.rs`.
#[test]
fn peer_defect_10_a_number_of_workers_without_end_is_refused_by_name() -> Result<()> {
    let fixture = new_fixture("peer-10")?;
    let jobs = e2e::api::collection(&fixture.namespace, "mpijobs");
    for workers in [10_001, i32::MAX.unsigned_abs()] {
        let job = MpiJob::named("endless").workers(workers).json();
        let answer = fixture.api.send("POST", &jobs, Some(&job))?;
        let told = answer.message();
        ensure!(
            answer.code == 422 && told.contains("spec.mpiReplicaSpecs[Worker].replicas"),
            "{workers} workers: {}: {told}",
            answer.code
        );
    }
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    let jobs = fixture.path("mpijobs", "pi");
    let more = json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": i32::MAX}}}});
    let answer = fixture.api.send("PATCH", &jobs, Some(&more))?;
    ensure!(answer.code == 422, "{}: {}", answer.code, answer.message());
    Ok(())
}

#[test]
fn peer_defect_11_a_pod_is_not_trusted_for_its_labels() -> Result<()> {
    let fixture = new_fixture("peer-11")?;
    let _operator = fixture.operator()?;
    let job = MpiJob::named("pi").workers(2).wait_for_workers();
    fixture.submit(&job.clean_pod_policy("All"))?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    // One looks like a worker that is Ready, the other like one that was evicted.
    let mut impostors = Vec::new();
    for (name, state) in [("ready", PodState::Ready), ("evicted", EVICTED)] {
        let labels = &workers[0]["metadata"]["labels"];
        let container = json!([{"name": "none", "image": "nowhere.invalid/none:0"}]);
        let pod = json!({
            "metadata": {"name": name, "labels": labels}, "spec": {"containers": container},
        });
        let pod = fixture.create("pods", &pod)?;
        fixture.set(std::slice::from_ref(&pod), state)?;
        impostors.push(pod);
    }
    fixture.set(&workers[..1], PodState::Ready)?;
    look_again(&fixture, "pi")?;
    let job = fixture.job("pi")?;
    ensure!(condition(&job, "Failed").is_none(), "{}", job["status"]);
    let launcher = fixture.get("jobs", "pi-launcher")?;
    ensure!(launcher.is_none(), "somebody else's pod opened the gate");
    fixture.set(&workers, PodState::Ready)?;
    let launcher = fixture.await_pods("pi", "launcher", 1)?;
    fixture.set(&launcher, PodState::Ready)?;
    fixture.set(&launcher, PodState::Succeeded)?;
    fixture.await_condition("pi", "Succeeded")?;
    wait_for("the job's own workers to go", SOON, || {
        let own = [
            fixture.get("pods", "pi-worker-0")?,
            fixture.get("pods", "pi-worker-1")?,
        ];
        Ok(own.iter().all(Option::is_none).then_some(()))
    })?;
    for impostor in &impostors {
        let now = fixture.get("pods", name(impostor))?;
        let now = now.with_context(|| format!("{} was removed", name(impostor)))?;
        ensure!(
            now["metadata"]["deletionTimestamp"].is_null(),
            "{}",
            now["metadata"]
        );
    }
    Ok(())
}

#[test]
fn peer_defect_12_a_pod_that_took_the_name_meanwhile_is_not_deleted() -> Result<()> {
    let fixture = new_fixture("peer-12")?;
    let _kubelet = kubelet(&fixture)?;
    let relay = Relay::open(fixture.api.clone())?;
    let through = fixture.account.kubeconfig_through(relay.address)?;
    let operator = fixture.operator_of(&fixture.account, &through)?;
    operator.await_leading()?;
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.await_condition("pi", "Running")?;
    let workers = fixture.await_pods("pi", "worker", 2)?;

    let (api, path) = (fixture.api.clone(), fixture.path("pods", "pi-worker-1"));
    let pods = e2e::api::collection(&fixture.namespace, "pods");
    let newcomer = json!({
        "metadata": {"name": "pi-worker-1", "labels": {"owner": "somebody-else"}},
        "spec": {"containers": [{"name": "none", "image": "nowhere.invalid/none:0"}]},
    });
    let collection = pods.clone();
    relay.meddle_before(&format!("DELETE {pods}"), move || {
        let now = json!({"gracePeriodSeconds": 0});
        let swapped = api.send("DELETE", &path, Some(&now)).and_then(|_| {
            wait_for("the worker to go", SOON, || {
                Ok(api.get(&path)?.is_none().then_some(()))
            })?;
            api.create(&collection, &newcomer)
        });
        swapped.expect("the worker's name can be taken");
    });
    scale(&fixture, 1)?;
    let newcomer = wait_for("another pod under the worker's name", SOON, || {
        let pod = fixture.get("pods", "pi-worker-1")?;
        Ok(pod.filter(|pod| uid(pod) != uid(&workers[1])))
    })?;
    let end = Instant::now() + LOOKED_AGAIN;
    while Instant::now() < end {
        let pod = fixture
            .get("pods", "pi-worker-1")?
            .context("somebody else's pod was deleted")?;
        ensure!(uid(&pod) == uid(&newcomer) && pod["metadata"]["deletionTimestamp"].is_null());
    }
    operator.assert_alive()
}
