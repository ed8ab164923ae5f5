//! Jobs that may not go on: because not all of their objects can be seen, or because a pass over them
//! panics. What a job is held for, its status says; others do not notice.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::cluster::{Cluster, all_run, condition, mpi_job};
use crate::faults::Fault;

/// Too large to be kept: it is asked for in each pass.
fn long(name: &str) -> Value {
    let mut job = mpi_job(name);
    job["metadata"]["annotations"] = json!({"example.com/text": "x".repeat(100 << 10)});
    job
}

fn says(words: &'static str) -> impl Fn(&DynamicObject) -> bool {
    move |job| {
        let message = &job.data["status"]["muster"]["message"];
        message.to_string().contains(words)
    }
}

/// From now on the API server neither lists nor watches pods.
fn break_watch_of_pods(cluster: &Cluster, fault: &Fault) {
    for line in ["GET pods", "WATCH pods"] {
        cluster
            .faults
            .inject_if(usize::MAX, fault.clone(), move |call| call.line() == line);
    }
    cluster.faults.cut_watches();
}

const FORBIDDEN: Fault = Fault::Status(403, "Forbidden", "pods is forbidden");
const BROKEN: Fault = Fault::Status(500, "InternalError", "etcd is slow");

#[tokio::test(start_paused = true)]
async fn s01_a_pass_that_panics_stops_no_other_job() {
    let mut cluster = Cluster::new(all_run);
    cluster.faults.inject_if(usize::MAX, Fault::Panic, |call| {
        call.line() == "POST pods" && call.body.contains("bad-worker")
    });
    cluster.start_operator();
    cluster.submit(mpi_job("bad")).await;
    cluster
        .until_met("the pass to panic", async || {
            !cluster.faults.calls("POST pods").is_empty()
        })
        .await;
    cluster.submit(mpi_job("good")).await;
    cluster.until("good", "Running").await;
    let tries = cluster.faults.calls("POST pods").len();
    cluster.pass(120).await;
    let tries = cluster.faults.calls("POST pods").len() - tries;
    assert!((1..20).contains(&tries), "{tries} tries in two minutes");

    cluster.faults.heal();
    cluster.until("bad", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn s01_a_held_job_that_makes_a_pass_panic_stops_no_other_job() {
    let mut cluster = Cluster::new(all_run);
    let fault = Fault::Status(403, "Forbidden", "configmaps is forbidden");
    cluster.faults.inject("GET configmaps", usize::MAX, fault);
    cluster
        .faults
        .inject("PATCH mpijobs/bad", usize::MAX, Fault::Panic);
    cluster.start_operator();
    cluster.submit(mpi_job("bad")).await;
    cluster
        .until_met("the pass to panic", async || {
            !cluster.faults.calls("PATCH mpijobs/bad").is_empty()
        })
        .await;
    cluster.submit(mpi_job("good")).await;
    let told = says("configmaps is forbidden");
    cluster.until_job("good", "why it is held", told).await;

    cluster.faults.heal();
    cluster.until("good", "Running").await;
    cluster.until("bad", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn s01_large_jobs_that_are_held_are_read_one_after_the_other() {
    let mut cluster = Cluster::new(all_run);
    let fault = Fault::Status(403, "Forbidden", "configmaps is forbidden");
    cluster.faults.inject("GET configmaps", usize::MAX, fault);
    let slow = Fault::Delay(Duration::from_secs(5));
    cluster.faults.inject("GET mpijobs/long", usize::MAX, slow);
    for name in ["long-a", "long-b", "long-c"] {
        cluster.submit(long(name)).await;
    }
    cluster.start_operator();
    let asked = || cluster.faults.calls("GET mpijobs/long").len();
    cluster
        .until_met("the first to be asked for", async || asked() > 0)
        .await;
    cluster.pass(3).await;
    assert_eq!(asked(), 1, "the first is not answered yet");
    for name in ["long-a", "long-b", "long-c"] {
        let told = says("configmaps is forbidden");
        cluster.until_job(name, "why it is held", told).await;
    }
}

#[tokio::test(start_paused = true)]
async fn c15_a_right_that_is_lost_while_jobs_run_is_told_in_their_status() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("seen")).await;
    cluster.until("seen", "Running").await;
    cluster.pass(60).await;
    break_watch_of_pods(&cluster, &FORBIDDEN);
    let told = says("pods is forbidden");
    cluster.until_job("seen", "the missing right", told).await;
    let job = cluster.jobs().get("seen").await.expect("the job exists");
    assert!(condition(&job, "Running").is_some(), "{}", job.data);
    assert_eq!(job.data["status"]["muster"]["phase"], "Running");

    cluster.faults.heal();
    let healed = says("launcher and workers run");
    cluster.until_job("seen", "its old status", healed).await;
}

/// The launcher had no room when the watch of pods broke, and runs since then. Nobody may end the job for
/// what was true before.
async fn no_verdict_while(fault: &Fault) {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    let filler = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "filler", "namespace": "default"},
        "spec": {"containers": [{
            "name": "main", "image": "none", "resources": {"requests": {"cpu": 700}},
        }]},
    });
    cluster.create(&cluster.pods(), filler).await;
    let mut job = mpi_job("late");
    job["spec"]["muster"] = json!({"startupTimeoutSeconds": 60});
    let launcher = &mut job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"];
    launcher["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": 300}});
    cluster.submit(job).await;
    cluster.pass(10).await;
    let job = cluster.jobs().get("late").await.expect("the job exists");
    assert!(condition(&job, "Running").is_none(), "{}", job.data);
    break_watch_of_pods(&cluster, fault);
    cluster.delete(&cluster.pods(), "filler").await;
    cluster.pass(180).await;
    let pods = cluster.pods().list(&Default::default()).await;
    let runs = |pod: &DynamicObject| pod.data["status"]["phase"] == "Running";
    assert!(pods.expect("pods are listed").items.iter().all(runs));
    let job = cluster.jobs().get("late").await.expect("the job exists");
    assert!(condition(&job, "Failed").is_none(), "{}", job.data);
    cluster.faults.heal();
    cluster.until("late", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn c15_pods_that_may_not_be_watched_any_more_end_no_job() {
    no_verdict_while(&FORBIDDEN).await;
}

#[tokio::test(start_paused = true)]
async fn c15_pods_that_cannot_be_listed_again_end_no_job() {
    no_verdict_while(&BROKEN).await;
}

#[tokio::test(start_paused = true)]
async fn c15_a_watch_that_hangs_ends_no_job() {
    no_verdict_while(&Fault::Delay(Duration::from_secs(3600))).await;
}
