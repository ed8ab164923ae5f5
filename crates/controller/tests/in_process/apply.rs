//! Writes: what the controller does when the API server refuses, conflicts, or does not answer.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, all_run, condition, launchers_succeed, mpi_job};
use crate::faults::Fault;

#[tokio::test(start_paused = true)]
async fn a_template_that_is_refused_is_tried_with_one_pod_alone() {
    let mut cluster = Cluster::new(all_run);
    let refused = Fault::Status(422, "Invalid", "spec.containers: no");
    cluster.faults.inject("POST pods", usize::MAX, refused);
    cluster.start_operator();
    let mut job = mpi_job("many");
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 40.into();
    cluster.submit(job).await;
    let refusal = |job: &kube::api::DynamicObject| {
        job.data["status"]
            .to_string()
            .contains("spec.containers: no")
    };
    cluster
        .until_job("many", "the refusal in its status", refusal)
        .await;
    assert_eq!(cluster.faults.calls("POST pods").len(), 1);

    // The refusal is retried, and forgotten once a pod was accepted.
    cluster.faults.heal();
    let job = cluster.until("many", "Running").await;
    assert_eq!(cluster.faults.calls("POST pods").len(), 41);
    assert!(
        !job.data["status"]["muster"]
            .to_string()
            .contains("spec.containers")
    );
}

/// A job with many workers.
fn large(name: &str, workers: usize) -> serde_json::Value {
    let mut job = mpi_job(name);
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers.into();
    job
}

#[tokio::test(start_paused = true)]
async fn c03_a_large_job_is_created_in_batches_beside_which_a_small_one_starts() {
    // More than one pass sends.
    const WORKERS: usize = 540;
    let mut cluster = Cluster::new(all_run);
    // An API server that takes its time, so that the order of requests is not chance.
    let slow = Fault::Delay(Duration::from_millis(20));
    cluster.faults.inject("POST", usize::MAX, slow);
    cluster.start_operator();
    cluster.submit(large("large", WORKERS)).await;
    cluster
        .until_met("the first workers", async || {
            cluster.faults.calls("POST pods").len() > 40
        })
        .await;
    cluster.submit(mpi_job("small")).await;
    cluster.until("small", "Running").await;
    let before = cluster.faults.calls("POST pods").len();
    assert!(
        before < WORKERS / 2,
        "{before} pods came before the small job ran"
    );
    cluster.until("large", "Running").await;
    let pods = cluster.faults.calls("POST pods");
    assert_eq!(pods.len(), WORKERS + 2, "none was sent twice");
}

/// This operator looks at two jobs at once. One that has many pods to create must not keep its place until
/// they exist.
#[tokio::test(start_paused = true)]
async fn c03_a_small_job_starts_beside_more_large_ones_than_are_looked_at_at_once() {
    let mut cluster = Cluster::new(all_run);
    let slow = Fault::Delay(Duration::from_millis(200));
    cluster.faults.inject("POST pods", usize::MAX, slow);
    for name in ["large-a", "large-b", "large-c"] {
        cluster.submit(large(name, 400)).await;
    }
    cluster.start_operator();
    let pods = || cluster.faults.calls("POST pods").len();
    cluster
        .until_met("the first workers", async || pods() > 40)
        .await;
    cluster.submit(mpi_job("small")).await;
    let start = tokio::time::Instant::now();
    cluster.until("small", "Running").await;
    let took = start.elapsed();
    let before = pods();
    assert!(
        before < 600,
        "{before} pods came before the small job ran, in {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn c03_a_collection_is_deleted_page_by_page_and_answered_with_metadata() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("pages")).await;
    cluster.until("pages", "Running").await;
    // As the API server answers when there are more pods than one request deletes.
    let first = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "1", "continue": "next"}, "items": []});
    let first = Fault::Canned(std::time::Duration::ZERO, 200, first.to_string());
    cluster.faults.inject("DELETE pods", 1, first);
    let suspend = json!({"spec": {"runPolicy": {"suspend": true}}});
    cluster.patch(&cluster.jobs(), "pages", suspend).await;
    cluster
        .until_met("the second page", async || {
            cluster.faults.calls("DELETE pods").len() >= 2
        })
        .await;
    let pages = cluster.faults.calls("DELETE pods");
    for (page, from) in pages.iter().zip(["continue=", "continue=next"]) {
        assert!(page.query.contains("limit=1000"), "{page:?}");
        assert!(page.query.ends_with(from), "{page:?}");
        assert!(
            page.accept.contains("PartialObjectMetadataList"),
            "{page:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn c02_a_large_job_is_scaled_down() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(large("large", 530)).await;
    cluster.until("large", "Running").await;
    let fewer = json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 10}}}});
    cluster.patch(&cluster.jobs(), "large", fewer).await;
    cluster
        .until_met("the surplus to go", async || {
            let pods = cluster.pods().list(&Default::default()).await;
            pods.expect("pods are listed").items.len() == 11
        })
        .await;
    let deletes = cluster.faults.calls("DELETE pods");
    assert_eq!(deletes.len(), 1, "one request took 520 pods: {deletes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_is_found_again() {
    let mut cluster = Cluster::new(launchers_succeed);
    for kind in ["POST services", "POST secrets", "POST pods", "POST jobs"] {
        cluster.faults.inject(kind, 1, Fault::DropAnswer);
    }
    cluster.start_operator();
    cluster.submit(mpi_job("lost")).await;
    cluster.until("lost", "Succeeded").await;
    let created = cluster.orders().into_iter().filter(|order| {
        matches!(order, minicluster::kubelet::Order::Place { pod, .. } if pod.name.contains("launcher"))
    });
    assert_eq!(created.count(), 1, "a launcher started twice");
}

#[tokio::test(start_paused = true)]
async fn a_quota_conflict_is_retried_at_once() {
    let mut cluster = Cluster::new(all_run);
    let conflict = Fault::Status(409, "Conflict", "the quota was changed meanwhile");
    cluster.faults.inject("POST pods", 4, conflict);
    cluster.start_operator();
    cluster.submit(mpi_job("quota")).await;
    let start = tokio::time::Instant::now();
    cluster.until("quota", "Running").await;
    assert_eq!(cluster.faults.calls("POST pods").len(), 6);
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_somebody_else_is_waited_for_and_not_touched() {
    let mut cluster = Cluster::new(launchers_succeed);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken"},
        "spec": {"clusterIP": "None", "selector": {"app": "other"}},
    });
    let services = cluster.api("", "v1", "Service", "services");
    let foreign = cluster.create(&services, service).await;
    cluster.start_operator();
    cluster.submit(mpi_job("taken")).await;
    cluster.pass(60).await;
    let job = cluster.jobs().get("taken").await.expect("the job exists");
    assert!(condition(&job, "Running").is_none());
    let now = services.get("taken").await.expect("it was not deleted");
    assert_eq!(
        now.metadata.resource_version,
        foreign.metadata.resource_version
    );

    cluster.delete(&services, "taken").await;
    cluster.until("taken", "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_launcher_that_lost_its_label_is_labelled_again() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("bare")).await;
    cluster.until("bare", "Running").await;
    cluster.stop_operator();
    let labels = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
    cluster
        .patch(&cluster.launchers(), "bare-launcher", labels)
        .await;
    cluster.start_operator();
    cluster
        .until_met("the label", async || {
            let job = cluster.launchers().get("bare-launcher").await;
            let labels = job.expect("the launcher exists").metadata.labels;
            labels.is_some_and(|labels| labels.contains_key("app.kubernetes.io/managed-by"))
        })
        .await;
    assert_eq!(cluster.faults.calls("POST jobs").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_replaced_under_its_name_is_not_deleted() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("swap")).await;
    cluster.until("swap", "Running").await;
    // The delete is refused because the UID is another one's; the controller asks again and
    // deletes what is there.
    cluster.faults.inject(
        "DELETE",
        2,
        Fault::Status(409, "Conflict", "the UID differs"),
    );
    let suspend = json!({"spec": {"runPolicy": {"suspend": true}}});
    cluster.patch(&cluster.jobs(), "swap", suspend).await;
    cluster.until("swap", "Suspended").await;
    cluster
        .until_met("the pods to go", async || {
            let pods = cluster.pods().list(&Default::default()).await;
            pods.expect("pods are listed").items.is_empty()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c08_a_hanging_admission_webhook_is_shown_in_the_status() {
    // A webhook that does not answer: the API server gives up after the webhook's default timeout.
    // One without a timeout of its own: nobody answers.
    let hour = Fault::Delay(std::time::Duration::from_secs(3600));
    let webhook = "failed calling webhook \"x.example.com\": context deadline exceeded";
    let status =
        json!({"kind": "Status", "code": 500, "reason": "InternalError", "message": webhook});
    let ten = std::time::Duration::from_secs(10);
    let failed = Fault::Canned(ten, 500, status.to_string());
    for (fault, words) in [(hour, "did not answer"), (failed, "failed calling webhook")] {
        let mut cluster = Cluster::new(all_run);
        cluster.faults.inject("POST pods", usize::MAX, fault);
        cluster.start_operator();
        cluster.submit(mpi_job("hang")).await;
        let start = tokio::time::Instant::now();
        let told = |job: &kube::api::DynamicObject| job.data["status"].to_string().contains(words);
        cluster.until_job("hang", words, told).await;
        assert!(
            start.elapsed().as_secs() <= 30,
            "after {:?}",
            start.elapsed()
        );
        cluster.faults.heal();
        cluster.until("hang", "Running").await;
    }
}
