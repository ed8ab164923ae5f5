//! A job that takes the gang scheduler that is found: it keeps that one, whoever runs the operator then,
//! and a start after a suspension may find another one.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::cluster::{Cluster, all_run, condition, mpi_job};

/// Longer than an operator keeps what the API server said that it serves.
const FORGOTTEN_SECS: u64 = 120;

fn taking_what_is_found(name: &str) -> Value {
    let mut job = mpi_job(name);
    job["spec"]["muster"] = json!({"gang": "Auto"});
    job
}

/// The API server serves the PodGroups of Volcano from now on.
async fn install_volcano(cluster: &Cluster) {
    let definitions = Api::<DynamicObject>::all_with(
        cluster.client.clone(),
        &ApiResource {
            group: "apiextensions.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "apiextensions.k8s.io/v1".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            plural: "customresourcedefinitions".to_owned(),
        },
    );
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1beta1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}});
    let names = json!({"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup",
        "listKind": "PodGroupList"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.volcano.sh"},
        "spec": {"group": "scheduling.volcano.sh", "scope": "Namespaced", "names": names,
            "versions": [version]},
    });
    cluster.create(&definitions, definition).await;
}

fn found(job: &DynamicObject) -> &Value {
    &job.data["status"]["muster"]["gang"]
}

fn suspend(suspend: bool) -> Value {
    json!({"spec": {"runPolicy": {"suspend": suspend}}})
}

/// Nothing but the status tells of a job without workers, or of one that is over, that nobody was found
/// for it.
#[tokio::test(start_paused = true)]
async fn a_job_keeps_what_was_found_for_it_when_another_operator_takes_over() {
    let mut cluster = Cluster::new(|pod| match pod.name.starts_with("over-launcher") {
        true => crate::cluster::Fate::Exits(0),
        false => all_run(pod),
    });
    cluster.start_operator();
    let mut alone = taking_what_is_found("alone");
    let roles = alone["spec"]["mpiReplicaSpecs"].as_object_mut();
    roles.expect("roles").remove("Worker");
    cluster.submit(alone).await;
    cluster.submit(taking_what_is_found("over")).await;
    let running = cluster.until("alone", "Running").await;
    let over = cluster.until("over", "Succeeded").await;
    assert_eq!([found(&running), found(&over)], ["None", "None"]);

    cluster.stop_operator();
    install_volcano(&cluster).await;
    cluster.start_operator();
    cluster.pass(FORGOTTEN_SECS).await;
    let backoff = json!({"spec": {"runPolicy": {"backoffLimit": 5}}});
    for name in ["alone", "over"] {
        cluster.patch(&cluster.jobs(), name, backoff.clone()).await;
        let seen = |job: &DynamicObject| job.data["status"]["observedGeneration"] == 2;
        let job = cluster.until_job(name, "the edit to be seen", seen).await;
        assert_eq!(found(&job), "None", "{name}");
    }
    let groups = cluster.faults.calls("POST podgroups");
    assert!(groups.is_empty(), "{groups:?}");
}

#[tokio::test(start_paused = true)]
async fn every_pod_of_a_resumed_job_is_for_the_scheduler_that_is_found_then() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(taking_what_is_found("pi")).await;
    cluster.until("pi", "Running").await;
    cluster.patch(&cluster.jobs(), "pi", suspend(true)).await;
    cluster.until("pi", "Suspended").await;
    install_volcano(&cluster).await;
    cluster.pass(FORGOTTEN_SECS).await;
    cluster.patch(&cluster.jobs(), "pi", suspend(false)).await;
    let job = cluster.until_job("pi", "Volcano", |job| found(job) == "Volcano");
    assert!(condition(&job.await, "Succeeded").is_none());

    let pods = async || {
        let pods = cluster.pods().list(&ListParams::default()).await;
        let pods = pods.expect("pods can be listed").items.into_iter();
        pods.filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .collect::<Vec<_>>()
    };
    cluster
        .until_met("three pods", async || pods().await.len() == 3)
        .await;
    for pod in pods().await {
        let name = pod.metadata.name.clone().unwrap_or_default();
        assert_eq!(pod.data["spec"]["schedulerName"], "volcano", "{name}");
    }
}
