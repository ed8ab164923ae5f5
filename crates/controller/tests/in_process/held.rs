//! Jobs that may not go on: because not all of their objects can be seen, or because a pass over them
//! panics. What a job is held for, its status says; others do not notice.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::cluster::{Cluster, all_run, mpi_job};
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
