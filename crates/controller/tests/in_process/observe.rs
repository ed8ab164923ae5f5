//! Reads: what the controller asks the API server besides its watches.

use kube::ResourceExt as _;
use serde_json::json;

use crate::cluster::{Cluster, Fate, all_run, condition, mpi_job};
use crate::faults::{self, Fault};

#[tokio::test(start_paused = true)]
async fn b17_at_rest_almost_nothing_is_asked() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("rest")).await;
    cluster.until("rest", "Running").await;
    cluster.pass(900).await;
    let before = cluster.faults.calls("").len();
    cluster.pass(1800).await;
    let after = cluster.faults.calls("");
    // Besides watches, it asks whether the APIs of other dialects were installed meanwhile: once for
    // all of them.
    let asked = &after[before..];
    let is_expected =
        |call: &&faults::Call| call.line().starts_with("WATCH") || call.path == "/apis";
    let others: Vec<_> = asked.iter().filter(|call| !is_expected(call)).collect();
    assert!(others.is_empty(), "{others:?}");
    // With six renewals of its lease, that is less than seven requests a minute.
    assert!(asked.len() < 30, "{} in half an hour", asked.len());
}

#[tokio::test(start_paused = true)]
async fn c06_a_launcher_that_could_not_be_asked_for_is_not_absent() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    let mut job = mpi_job("late");
    job["spec"]["runPolicy"] = json!({"activeDeadlineSeconds": 600});
    cluster.submit(job).await;
    cluster.until("late", "Running").await;
    cluster.stop_operator();
    // The job is now as the Kubeflow operator would have left it: no watch of ours shows its Job.
    // By the job's own clock its deadline is over; its Job, which has a clock of its own, goes on.
    let labels = json!({"app.kubernetes.io/managed-by": null, "muster.dev/job-uid": null});
    let unlabel = json!({"metadata": {"labels": labels}});
    cluster
        .patch(&cluster.launchers(), "late-launcher", unlabel.clone())
        .await;
    let pods = cluster
        .pods()
        .list(&Default::default())
        .await
        .expect("pods are listed");
    for pod in pods {
        cluster
            .patch(&cluster.pods(), &pod.name_any(), unlabel.clone())
            .await;
    }
    let started = json!({"status": {"startTime": "2020-01-01T00:00:00Z"}});
    cluster.patch_status("late", started).await;
    let broken = Fault::Status(500, "InternalError", "etcd is slow");
    cluster.faults.inject("GET jobs/late-launcher", 1, broken);
    cluster.start_operator();
    cluster.pass(30).await;
    let job = cluster.jobs().get("late").await.expect("the job exists");
    assert!(
        condition(&job, "Failed").is_none(),
        "{}",
        job.data["status"]
    );
    assert_eq!(cluster.faults.calls("GET jobs/late-launcher").len(), 2);
}

fn worker_0_never_starts(pod: &minicluster::kubelet::PodRef) -> Fate {
    match pod.name.ends_with("worker-0") {
        true => Fate::NeverStarts,
        false => Fate::Runs,
    }
}

fn failed_mount(name: &str, pod: &str, uid: &str, message: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": pod, "uid": uid},
        "type": "Warning", "reason": "FailedMount", "message": message,
        "firstTimestamp": crate::cluster::now(), "lastTimestamp": crate::cluster::now(),
    })
}

#[tokio::test(start_paused = true)]
async fn c13_events_of_other_jobs_do_not_hurry_a_slow_one() {
    let mut cluster = Cluster::new(worker_0_never_starts);
    let events = cluster.api("", "v1", "Event", "events");
    for index in 0..1000 {
        let event = failed_mount(&format!("e{index}"), "other", "other", "no such volume");
        cluster.create(&events, event).await;
    }
    cluster.start_operator();
    cluster.submit(mpi_job("slow")).await;
    cluster.pass(240).await;
    let asked = cluster.faults.calls("GET events").len();
    assert!(
        (3..=8).contains(&asked),
        "asked {asked} times in four minutes"
    );

    // An event of its own pod is still found.
    let pod = cluster
        .pods()
        .get("slow-worker-0")
        .await
        .expect("the pod exists");
    let uid = pod.metadata.uid.unwrap_or_default();
    let event = failed_mount("own", "slow-worker-0", &uid, "configmap \"x\" not found");
    cluster.create(&events, event).await;
    let told =
        |job: &kube::api::DynamicObject| job.data["status"].to_string().contains("not found");
    cluster
        .until_job("slow", "the missing volume in its status", told)
        .await;
}

#[tokio::test(start_paused = true)]
async fn c13_events_that_are_too_long_to_read_prove_nothing() {
    let mut cluster = Cluster::new(worker_0_never_starts);
    let events = cluster.api("", "v1", "Event", "events");
    cluster.start_operator();
    cluster.submit(mpi_job("flooded")).await;
    let pod = async || cluster.pods().get_opt("flooded-worker-0").await;
    cluster
        .until_met("its worker", async || {
            pod().await.is_ok_and(|pod| pod.is_some())
        })
        .await;
    cluster.pass(60).await;
    let pod = pod().await.expect("pods can be asked for");
    let uid = pod.and_then(|pod| pod.metadata.uid).unwrap_or_default();
    let long = format!("configmap {} not found", "x".repeat(1_400_000));
    for index in 0..10 {
        let event = failed_mount(&format!("long-{index}"), "flooded-worker-0", &uid, &long);
        cluster.create(&events, event).await;
    }
    let before = cluster.faults.calls("GET events").len();
    cluster.pass(300).await;
    let asked = cluster.faults.calls("GET events").len() - before;
    assert!((2..=8).contains(&asked), "asked {asked} times");
    let job = cluster.jobs().get("flooded").await.expect("the job exists");
    assert!(condition(&job, "Failed").is_none(), "{}", job.data);

    for index in 0..10 {
        cluster.delete(&events, &format!("long-{index}")).await;
    }
    let event = failed_mount("own", "flooded-worker-0", &uid, "configmap \"x\" not found");
    cluster.create(&events, event).await;
    let told = |job: &kube::api::DynamicObject| {
        let status = job.data["status"].to_string();
        status.contains("not found")
    };
    cluster
        .until_job("flooded", "the missing volume in its status", told)
        .await;
}
