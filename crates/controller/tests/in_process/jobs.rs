//! Jobs from their creation to their end, without any fault.

use minicluster::kubelet::Order;
use serde_json::json;

use crate::cluster::{Cluster, Fate, all_run, launchers_succeed, mpi_job};

#[tokio::test(start_paused = true)]
async fn a_job_runs_to_its_end() {
    let mut cluster = Cluster::new(launchers_succeed);
    cluster.start_operator();
    cluster.submit(mpi_job("pi")).await;
    let job = cluster.until("pi", "Succeeded").await;
    assert!(!job.data["status"]["completionTime"].is_null());
    let is_worker =
        |order: &&Order| matches!(order, Order::Start { pod, .. } if pod.name.contains("worker"));
    assert_eq!(cluster.orders().iter().filter(is_worker).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failing_launcher_fails_the_job() {
    let mut cluster = Cluster::new(|pod| match pod.name.contains("launcher") {
        true => Fate::Exits(3),
        false => Fate::Runs,
    });
    cluster.start_operator();
    let mut job = mpi_job("bad");
    job["spec"]["runPolicy"] = json!({"backoffLimit": 0});
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never".into();
    cluster.submit(job).await;
    cluster.until("bad", "Failed").await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_waits_and_goes_on() {
    let mut cluster = Cluster::new(launchers_succeed);
    cluster.start_operator();
    let mut job = mpi_job("later");
    job["spec"]["runPolicy"] = json!({"suspend": true});
    cluster.submit(job).await;
    cluster.until("later", "Suspended").await;
    assert!(cluster.orders().is_empty());
    let resume = json!({"spec": {"runPolicy": {"suspend": false}}});
    cluster.patch(&cluster.jobs(), "later", resume).await;
    cluster.until("later", "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_goes_on_where_the_last_one_stopped() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("long")).await;
    cluster.until("long", "Running").await;
    cluster.start_operator();
    cluster.pass(30).await;
    let created = cluster.faults.calls("POST pods");
    assert_eq!(created.len(), 2, "{created:?}");
    assert_eq!(cluster.faults.calls("POST jobs").len(), 1);
    assert_eq!(cluster.faults.calls("POST secrets").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_outcome_is_recorded_before_anything_is_deleted() {
    let mut cluster = Cluster::new(launchers_succeed);
    cluster.start_operator();
    let mut job = mpi_job("clean");
    job["spec"]["runPolicy"] = json!({"cleanPodPolicy": "All"});
    cluster.submit(job).await;
    cluster.until("clean", "Succeeded").await;
    cluster
        .until_met("the workers to go", async || {
            let pods = cluster.pods().list(&Default::default()).await;
            pods.expect("pods are listed").items.iter().all(|pod| {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                !name.contains("worker")
            })
        })
        .await;
    let writes = cluster.faults.writes();
    let first_delete = writes.iter().position(|line| line.starts_with("DELETE"));
    let first_delete = first_delete.expect("something was deleted");
    let last_status = cluster.faults.calls("PATCH mpijobs/clean/status");
    assert!(
        last_status
            .iter()
            .any(|call| call.body.contains("Succeeded"))
    );
    let statuses = writes[..first_delete]
        .iter()
        .filter(|line| line.ends_with("/status"));
    assert!(statuses.count() >= 1, "{writes:?}");
}
