//! What looks like an end, and what really ends a job: over the whole controller, with a Job controller and
//! a garbage collector that do as the real ones.

use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject};
use minicluster::kubelet::PodRef;
use planner::site::Transport;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Fate, all_run, condition, launchers_succeed, mpi_job};
use crate::faults::Fault;

fn launchers_yield(pod: &PodRef) -> Fate {
    match pod.name.contains("launcher") {
        true => Fate::Yields,
        false => Fate::Runs,
    }
}

async fn launcher_pods(cluster: &Cluster) -> Vec<DynamicObject> {
    let pods = cluster.pods().list(&Default::default()).await;
    let pods = pods.expect("pods are listed").items.into_iter();
    pods.filter(|pod| pod.name_any().contains("-launcher"))
        .collect()
}

async fn suspend(cluster: &Cluster, name: &str, suspend: bool) {
    let patch = json!({"spec": {"runPolicy": {"suspend": suspend}}});
    cluster.patch(&cluster.jobs(), name, patch).await;
}

/// A job that runs without its launcher's Job.
async fn orphaned(cluster: &mut Cluster, name: &str) {
    cluster.start_operator();
    cluster.submit(mpi_job(name)).await;
    cluster.until(name, "Running").await;
    let launcher = format!("{name}-launcher");
    let orphan = DeleteParams::orphan();
    let deleted = cluster.launchers().delete(&launcher, &orphan).await;
    deleted.expect("the launcher's Job exists");
    cluster
        .until_met("the Job to be gone", async || {
            let job = cluster.launchers().get_opt(&launcher).await;
            job.expect("Jobs can be asked for").is_none()
        })
        .await;
    cluster.pass(60).await;
}

#[tokio::test(start_paused = true)]
async fn c15_a_launcher_that_lost_its_job_is_not_joined_by_another() {
    let mut cluster = Cluster::new(all_run);
    orphaned(&mut cluster, "orphan").await;
    cluster.start_operator();
    cluster.pass(60).await;
    let pods = launcher_pods(&cluster).await;
    assert_eq!(pods.len(), 1, "one launcher");
    assert_eq!(pods[0].owner_references().len(), 0, "it has no owner");
    assert_eq!(cluster.faults.calls("POST jobs").len(), 1);

    // Nobody but the operator can stop it.
    suspend(&cluster, "orphan", true).await;
    cluster
        .until_met("the launcher to go", async || {
            launcher_pods(&cluster).await.is_empty()
        })
        .await;
    suspend(&cluster, "orphan", false).await;
    cluster
        .until_met("another launcher", async || {
            launcher_pods(&cluster).await.len() == 1
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c15_the_success_of_a_launcher_that_lost_its_job_counts() {
    let mut cluster = Cluster::new(launchers_succeed);
    // The operator cannot record the success before the Job is gone.
    let broken = Fault::Status(500, "InternalError", "etcd is slow");
    cluster.faults.inject_if(usize::MAX, broken, |call| {
        call.line() == "PATCH mpijobs/last/status" && call.body.contains("completionTime")
    });
    cluster.start_operator();
    cluster.submit(mpi_job("last")).await;
    cluster
        .until_met("the launcher to succeed", async || {
            let pods = launcher_pods(&cluster).await;
            pods.iter()
                .any(|pod| pod.data["status"]["phase"] == "Succeeded")
        })
        .await;
    cluster.stop_operator();
    let orphan = DeleteParams::orphan();
    let deleted = cluster.launchers().delete("last-launcher", &orphan).await;
    deleted.expect("the launcher's Job exists");
    cluster.pass(10).await;
    cluster.faults.heal();
    cluster.start_operator();
    cluster.until("last", "Succeeded").await;
    assert_eq!(cluster.faults.calls("POST jobs").len(), 1);
}

fn without_retries(name: &str) -> Value {
    let mut job = mpi_job(name);
    job["spec"]["runPolicy"] = json!({"backoffLimit": 0});
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never".into();
    job
}

/// Suspends a job that runs, and resumes it. Neither is an end.
async fn suspend_and_resume(cluster: &mut Cluster, name: &str) {
    cluster.start_operator();
    cluster.submit(without_retries(name)).await;
    cluster.until(name, "Running").await;
    suspend(cluster, name, true).await;
    cluster.until(name, "Suspended").await;
    cluster.pass(120).await;
    let job = cluster.jobs().get(name).await.expect("the job exists");
    for end in ["Failed", "Succeeded"] {
        let status = &job.data["status"];
        assert!(condition(&job, end).is_none(), "{end}: {status}");
    }
    assert!(launcher_pods(cluster).await.is_empty());
    suspend(cluster, name, false).await;
    cluster.until(name, "Running").await;
}

#[tokio::test(start_paused = true)]
async fn c15_a_suspension_does_not_end_a_job_without_retries() {
    let mut cluster = Cluster::new(all_run);
    suspend_and_resume(&mut cluster, "held").await;
}

#[tokio::test(start_paused = true)]
async fn c15_a_launcher_that_exits_with_0_when_it_is_suspended_has_not_succeeded() {
    let mut cluster = Cluster::new(launchers_yield);
    suspend_and_resume(&mut cluster, "yields").await;
}

#[tokio::test(start_paused = true)]
async fn c15_a_status_write_whose_answer_is_lost_is_announced() {
    let mut cluster = Cluster::new(launchers_succeed);
    cluster.faults.inject_if(1, Fault::DropAnswer, |call| {
        call.line() == "PATCH mpijobs/told/status" && call.body.contains("completionTime")
    });
    cluster.start_operator();
    cluster.submit(mpi_job("told")).await;
    cluster.until("told", "Succeeded").await;
    cluster.pass(60).await;
    let events = cluster.faults.calls("POST events");
    let ends = events
        .iter()
        .filter(|call| call.body.contains("MPIJobSucceeded"));
    assert_eq!(ends.count(), 1, "{events:?}");
    let writes = cluster.faults.calls("PATCH mpijobs/told/status");
    let ends = writes
        .iter()
        .filter(|call| call.body.contains("completionTime"));
    assert_eq!(ends.count(), 1, "the write was carried out");
}

#[tokio::test(start_paused = true)]
async fn c14_a_suspended_job_of_the_kubeflow_operator_keeps_its_transport() {
    let mut cluster = Cluster::new(all_run);
    (cluster.site.agent_image, cluster.site.transport) =
        (Some("agent".to_owned()), Transport::Agent);
    let mut job = mpi_job("theirs");
    job["spec"]["runPolicy"] = json!({"suspend": true});
    let job = cluster.create(&cluster.jobs(), job).await;
    let time = "2026-01-01T00:00:00Z";
    let met = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "MPIJobSuspended", "message": "",
               "lastUpdateTime": time, "lastTransitionTime": time})
    };
    let status = json!({"status": {"conditions": [met("Created"), met("Suspended")]}});
    cluster.patch_status("theirs", status).await;
    let labels = json!({
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "theirs",
        "training.kubeflow.org/job-role": "launcher",
    });
    let container = json!({"name": "main", "image": "none", "command": ["mpirun"]});
    let launcher = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "theirs-launcher", "namespace": "default", "labels": {"app": "theirs"},
            "ownerReferences": [{
                "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "theirs",
                "uid": job.metadata.uid, "controller": true, "blockOwnerDeletion": true,
            }]},
        "spec": {"suspend": true, "template": {
            "metadata": {"labels": labels},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }},
    });
    cluster.create(&cluster.launchers(), launcher).await;
    cluster.start_operator();
    cluster.pass(30).await;
    suspend(&cluster, "theirs", false).await;
    let job = cluster.until("theirs", "Running").await;
    assert_eq!(job.data["status"]["muster"]["transport"], "SSH");
    assert_eq!(cluster.faults.calls("POST jobs").len(), 0, "it was kept");
    let keys = cluster.faults.calls("POST secrets");
    assert_eq!(keys.len(), 1);
    assert!(keys[0].body.contains("theirs-ssh"), "{keys:?}");
}

/// Deletes a job that became invalid and that a finalizer holds, and waits for its pods to go.
async fn delete_invalid(cluster: &mut Cluster, fault: Option<(usize, Fault)>) {
    cluster.start_operator();
    let mut job = mpi_job("edited");
    job["metadata"]["finalizers"] = json!(["example.com/held"]);
    cluster.submit(job).await;
    cluster.until("edited", "Running").await;
    let patch = json!({"spec": {"mainContainer": "nobody"}});
    cluster.patch(&cluster.jobs(), "edited", patch).await;
    let told = |job: &DynamicObject| job.data["status"]["muster"]["reason"] == "Invalid";
    cluster.until_job("edited", "its errors", told).await;
    if let Some((times, fault)) = fault {
        cluster.faults.inject("DELETE", times, fault);
    }
    cluster.delete(&cluster.jobs(), "edited").await;
    cluster
        .until_met("its pods to go", async || {
            let pods = cluster.pods().list(&Default::default()).await;
            pods.expect("pods are listed").items.is_empty()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn c09_an_invalid_job_that_is_deleted_loses_its_pods() {
    delete_invalid(&mut Cluster::new(all_run), None).await;
}

#[tokio::test(start_paused = true)]
async fn c09_an_invalid_job_loses_its_pods_although_deletes_failed_at_first() {
    for fault in [
        Fault::Status(500, "InternalError", "etcd is slow"),
        Fault::Status(403, "Forbidden", "a webhook says no"),
    ] {
        let mut cluster = Cluster::new(all_run);
        delete_invalid(&mut cluster, Some((15, fault))).await;
        let deletes = cluster.faults.calls("DELETE").len();
        assert!(deletes < 40, "{deletes} tries");
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_launcher_without_its_label_is_not_lost() {
    let definition = include_str!("../../../../deploy/crds/muster.dev_openmpis.yaml");
    let mut cluster = Cluster::with_definition(all_run, definition);
    cluster.site.agent_image = Some("none".to_owned());
    let job = json!({
        "apiVersion": "muster.dev/v1alpha1", "kind": "OpenMPI",
        "metadata": {"name": "kept", "namespace": "default"},
        "spec": {"image": "none", "secret": "keys", "workers": 1, "exec": "mpiexec true"},
    });
    let jobs = cluster.api("muster.dev", "v1alpha1", "OpenMPI", "openmpis");
    cluster.create(&jobs, job).await;
    cluster.start_operator();
    let phase = async || {
        let job = jobs.get("kept").await.expect("the job exists");
        job.data["status"]["muster"]["phase"].clone()
    };
    let runs = async || phase().await == "Running";
    cluster.until_met("the job to run", runs).await;
    let labels = json!({"training.kubeflow.org/operator-name": null});
    let unlabel = json!({"metadata": {"labels": labels}});
    cluster.patch(&cluster.pods(), "kept-master", unlabel).await;
    cluster.pass(30).await;
    assert_ne!(phase().await, "Failed");
    let labels = json!({"training.kubeflow.org/operator-name": "mpi-operator"});
    let label = json!({"metadata": {"labels": labels}});
    cluster.patch(&cluster.pods(), "kept-master", label).await;
    cluster.until_met("the job to run again", runs).await;
}
