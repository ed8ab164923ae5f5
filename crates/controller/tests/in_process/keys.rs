//! Whose Secret is whose, although none is ever read: the status records the name first, and what stands in
//! the way of that record is replaced.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::cluster::{Cluster, all_run, condition, launchers_succeed, mpi_job};
use crate::faults::{Call, Fault};

const PLANTED: &str = "cGxhbnRlZA==";

fn by_agent(name: &str) -> Value {
    let mut job = mpi_job(name);
    job["spec"]["muster"] = json!({"transport": "Agent"});
    job
}

fn cluster_with_agent(script: crate::cluster::Script) -> Cluster {
    let mut cluster = Cluster::new(script);
    cluster.site.agent_image = Some("agent".to_owned());
    cluster
}

/// All Secrets, by name.
async fn secrets(cluster: &Cluster) -> Vec<DynamicObject> {
    let api = cluster.api("", "v1", "Secret", "secrets");
    let listed = api.list(&Default::default()).await;
    listed.expect("Secrets are listed").items
}

async fn names(cluster: &Cluster) -> Vec<String> {
    let secrets = secrets(cluster).await.into_iter();
    secrets.filter_map(|secret| secret.metadata.name).collect()
}

fn recorded(job: &DynamicObject) -> String {
    let name = job.data.pointer("/status/muster/keys/secret");
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What somebody plants who may create Secrets, and knows the job.
async fn plant(cluster: &Cluster, name: &str, job: &DynamicObject) {
    let owner = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "name": job.metadata.name, "uid": job.metadata.uid,
        "controller": true, "blockOwnerDeletion": true});
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "data": {"launcher.key": PLANTED, "ssh-privatekey": PLANTED}});
    let api = cluster.api("", "v1", "Secret", "secrets");
    cluster.create(&api, secret).await;
}

#[tokio::test(start_paused = true)]
async fn s06_no_secret_is_ever_read() {
    let mut cluster = cluster_with_agent(all_run);
    cluster.start_operator();
    for job in [mpi_job("by-ssh"), by_agent("by-agent")] {
        cluster.submit(job).await;
    }
    for name in ["by-ssh", "by-agent"] {
        cluster.until(name, "Running").await;
    }
    cluster.start_operator();
    cluster.pass(60).await;
    assert_eq!(cluster.faults.calls("GET secrets").len(), 0);
    assert_eq!(cluster.faults.calls("WATCH secrets").len(), 0);
    assert_eq!(cluster.faults.calls("POST secrets").len(), 2, "made once");
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn s06_the_name_is_recorded_before_the_secret_is_made() {
    let mut cluster = cluster_with_agent(all_run);
    cluster.start_operator();
    cluster.submit(by_agent("pi")).await;
    let job = cluster.until("pi", "Running").await;
    let name = recorded(&job);
    assert!(name.starts_with("pi-agent-") && name.len() == 19, "{name}");
    assert_eq!(names(&cluster).await, [name]);
    let writes = cluster.faults.writes();
    let at = |line: &str| writes.iter().position(|write| write.starts_with(line));
    assert!(
        at("PATCH mpijobs/pi/status") < at("POST secrets"),
        "{writes:?}"
    );
    assert!(at("POST secrets") < at("POST pods"), "{writes:?}");
    let secret = &secrets(&cluster).await[0];
    assert!(secret.data["immutable"].is_null(), "decision 38");
}

#[tokio::test(start_paused = true)]
async fn s10_a_planted_secret_is_never_used() {
    let mut cluster = cluster_with_agent(all_run);
    cluster.start_operator();
    for mut job in [mpi_job("by-ssh"), by_agent("by-agent")] {
        job["spec"]["runPolicy"] = json!({"suspend": true});
        cluster.submit(job).await;
    }
    // The name of a suspended job's Secret is known, and the Secret does not exist yet.
    let job = cluster.until("by-agent", "Suspended").await;
    let name = recorded(&job);
    assert!(!names(&cluster).await.contains(&name));
    plant(&cluster, &name, &job).await;
    // The operator crashed after it had recorded the other one, and before it made it.
    let job = cluster.until("by-ssh", "Suspended").await;
    assert_eq!(recorded(&job), "by-ssh-ssh");
    cluster.stop_operator();
    let api = cluster.api("", "v1", "Secret", "secrets");
    cluster.delete(&api, "by-ssh-ssh").await;
    plant(&cluster, "by-ssh-ssh", &job).await;
    cluster.start_operator();
    for name in ["by-ssh", "by-agent"] {
        let resume = json!({"spec": {"runPolicy": {"suspend": false}}});
        cluster.patch(&cluster.jobs(), name, resume).await;
        cluster.until(name, "Running").await;
    }
    let secrets = secrets(&cluster).await;
    assert_eq!(secrets.len(), 2);
    for secret in secrets {
        let text = secret.data.to_string();
        assert!(!text.contains(PLANTED), "{:?}", secret.metadata.name);
    }
}

/// A user may have a Secret of that name for something else.
#[tokio::test(start_paused = true)]
async fn s10_a_users_own_secret_stays_as_it_is_and_the_job_waits_for_its_name() {
    let mut cluster = Cluster::new(all_run);
    let api = cluster.api("", "v1", "Secret", "secrets");
    let own = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pi-ssh"},
        "data": {"mine": PLANTED}});
    let own = cluster.create(&api, own).await;
    cluster.start_operator();
    cluster.submit(mpi_job("pi")).await;
    let is_blocked = |job: &DynamicObject| {
        job.data.pointer("/status/muster/reason") == Some(&json!("NameTaken"))
    };
    cluster.until_job("pi", "blocked", is_blocked).await;
    cluster.start_operator();
    cluster.pass(120).await;
    assert_eq!(secrets(&cluster).await[0].metadata.uid, own.metadata.uid);
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 0);
    cluster.delete(&api, "pi-ssh").await;
    cluster.until("pi", "Running").await;
}

/// Another operator saw the job first, and stopped at a Secret of that name. So the job is not new, but the
/// Secret is not its own.
#[tokio::test(start_paused = true)]
async fn s10_a_users_own_secret_stays_where_another_operator_stopped_at_it() {
    let mut cluster = Cluster::new(all_run);
    let api = cluster.api("", "v1", "Secret", "secrets");
    let own = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pi-ssh"},
        "data": {"mine": PLANTED}});
    let own = cluster.create(&api, own).await;
    cluster.submit(mpi_job("pi")).await;
    let created = json!({"type": "Created", "status": "True", "reason": "MPIJobCreated",
        "message": "MPIJob default/pi is created.", "lastTransitionTime": "2026-11-18T00:00:00Z",
        "lastUpdateTime": "2026-11-18T00:00:00Z"});
    let status = json!({"status": {"conditions": [created]}});
    cluster.patch_status("pi", status).await;
    cluster.start_operator();
    let is_blocked = |job: &DynamicObject| {
        job.data.pointer("/status/muster/reason") == Some(&json!("NameTaken"))
    };
    cluster.until_job("pi", "blocked", is_blocked).await;
    cluster.pass(60).await;
    assert_eq!(secrets(&cluster).await[0].metadata.uid, own.metadata.uid);
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 0);
}

/// A quota refuses before the API server looks for the name, and may be raised later.
#[tokio::test(start_paused = true)]
async fn s10_a_refusal_does_not_make_a_users_own_secret_the_jobs() {
    let mut cluster = Cluster::new(all_run);
    let api = cluster.api("", "v1", "Secret", "secrets");
    let own = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pi-ssh"},
        "data": {"mine": PLANTED}});
    let own = cluster.create(&api, own).await;
    let refused = Fault::Status(403, "Forbidden", "exceeded quota: secrets");
    cluster.faults.inject("TRY secrets", 1000, refused);
    cluster.start_operator();
    cluster.submit(mpi_job("pi")).await;
    let says = |reason: &'static str| {
        let reason = json!(reason);
        move |job: &DynamicObject| job.data.pointer("/status/muster/reason") == Some(&reason)
    };
    let told = says("QuotaExceeded");
    let job = cluster.until_job("pi", "the quota", told).await;
    assert_eq!(recorded(&job), "", "nobody knows whose it is");
    cluster.pass(60).await;
    assert!(cluster.faults.calls("TRY secrets").len() < 12, "patiently");
    cluster.faults.heal();
    let told = says("NameTaken");
    cluster.until_job("pi", "its user's Secret", told).await;
    cluster.pass(60).await;
    assert_eq!(secrets(&cluster).await[0].metadata.uid, own.metadata.uid);
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 0);
    cluster.delete(&api, "pi-ssh").await;
    cluster.until("pi", "Running").await;
}

/// Until it is healed, an operator that starts is shown this of a kind, and nothing after it.
async fn show_old(cluster: &Cluster, path: &'static str, items: &[&DynamicObject]) {
    let now = cluster.pods().list(&Default::default()).await;
    let version = now.expect("pods are listed").metadata.resource_version;
    let list = json!({"kind": "List", "apiVersion": "v1",
        "metadata": {"resourceVersion": version}, "items": items});
    let old = Fault::Canned(Duration::ZERO, 200, list.to_string());
    let is_list = move |call: &Call| call.path == path && !call.query.contains("watch=true");
    cluster.faults.inject_if(1000, old, is_list);
}

/// It was asleep while another operator went on.
#[tokio::test(start_paused = true)]
async fn s10_keys_in_use_are_not_replaced_by_an_operator_that_does_not_see_the_pods() {
    for (mut cluster, job) in [
        (Cluster::new(all_run), mpi_job("pi")),
        (cluster_with_agent(all_run), by_agent("pi")),
    ] {
        cluster.start_operator();
        cluster.submit(job).await;
        cluster.until("pi", "Running").await;
        let before = secrets(&cluster).await.remove(0);
        let pods = uids(&cluster).await;
        cluster.stop_operator();
        show_old(&cluster, "/api/v1/pods", &[]).await;
        cluster.start_operator();
        cluster.pass(60).await;
        let tried = cluster.faults.calls("POST secrets").len();
        assert!(tried > 1, "it did not try");
        cluster.faults.heal();
        cluster.restart_api_server();
        cluster.pass(60).await;
        let after = secrets(&cluster).await.remove(0);
        assert_eq!(after.metadata.uid, before.metadata.uid);
        assert_eq!(cluster.faults.calls("DELETE secrets").len(), 0);
        assert_eq!(uids(&cluster).await, pods);
        cluster.until("pi", "Running").await;
    }
}

/// The same, and the job has ended meanwhile.
#[tokio::test(start_paused = true)]
async fn s10_keys_of_a_job_that_is_over_are_not_replaced_by_an_operator_that_does_not_know() {
    let mut cluster = Cluster::new(launchers_succeed);
    cluster.start_operator();
    cluster.submit(mpi_job("pi")).await;
    let mut early = cluster.until("pi", "Succeeded").await;
    let status = &early.data["status"];
    let made = condition(&early, "Created");
    early.data["status"] = json!({"conditions": [made], "startTime": status["startTime"],
        "muster": {"keys": status["muster"]["keys"]}});
    let before = secrets(&cluster).await.remove(0);
    cluster.stop_operator();
    cluster.delete(&cluster.launchers(), "pi-launcher").await;
    let pods = cluster.pods().list(&Default::default()).await;
    for pod in pods.expect("pods are listed").items {
        let name = pod.metadata.name.unwrap_or_default();
        cluster.delete(&cluster.pods(), &name).await;
    }
    cluster
        .until_met("no pod", async || uids(&cluster).await.is_empty())
        .await;
    show_old(&cluster, "/apis/kubeflow.org/v2beta1/mpijobs", &[&early]).await;
    cluster.start_operator();
    cluster.pass(60).await;
    // What it sees asks for a launcher. Before it makes one, it looks at the job itself.
    assert!(!cluster.faults.calls("GET mpijobs/pi").is_empty());
    assert_eq!(cluster.faults.calls("POST jobs").len(), 1);
    let after = secrets(&cluster).await.remove(0);
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 0);
}

async fn uids(cluster: &Cluster) -> Vec<Option<String>> {
    let pods = cluster.pods().list(&Default::default()).await;
    let pods = pods.expect("pods are listed").items.into_iter();
    pods.map(|pod| pod.metadata.uid).collect()
}

/// Each of them has seen that nobody has the name.
#[tokio::test(start_paused = true)]
async fn s10_two_operators_make_one_secret() {
    let mut cluster = cluster_with_agent(all_run);
    cluster.start_operator();
    cluster.start_another_operator();
    for job in [mpi_job("by-ssh"), by_agent("by-agent")] {
        cluster.submit(job).await;
    }
    for name in ["by-ssh", "by-agent"] {
        cluster.until(name, "Running").await;
    }
    cluster.pass(60).await;
    assert_eq!(secrets(&cluster).await.len(), 2);
    let writes = cluster.faults.calls("POST secrets").len();
    assert!(writes > 2, "they did not meet");
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 0);
}

/// Its answer was lost, or the operator crashed just after it.
#[tokio::test(start_paused = true)]
async fn s10_a_secret_without_pods_that_an_operator_left_is_replaced() {
    let mut cluster = cluster_with_agent(all_run);
    let refused = Fault::Status(500, "InternalError", "etcd is slow");
    cluster.faults.inject("POST pods", 1000, refused);
    cluster.start_operator();
    cluster.submit(by_agent("pi")).await;
    cluster
        .until_met("the Secret", async || !names(&cluster).await.is_empty())
        .await;
    let before = secrets(&cluster).await.remove(0);
    cluster.stop_operator();
    cluster.faults.heal();
    cluster.start_operator();
    cluster.until("pi", "Running").await;
    let after = secrets(&cluster).await;
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.name, before.metadata.name);
    assert_ne!(after[0].metadata.uid, before.metadata.uid);
}

/// The answer to our own delete comes after its events, so somebody else may have deleted the pods, and
/// the Secret too. It is still there, and nobody waits for it.
#[tokio::test(start_paused = true)]
async fn s10_a_secret_that_we_made_is_known_again_without_pods() {
    let mut cluster = cluster_with_agent(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("pi")).await;
    cluster.until("pi", "Running").await;
    let before = secrets(&cluster).await.remove(0);
    let suspended = |suspend: bool| json!({"spec": {"runPolicy": {"suspend": suspend}}});
    cluster.faults.inject("DELETE pods", 1, Fault::DropAnswer);
    cluster.patch(&cluster.jobs(), "pi", suspended(true)).await;
    cluster.until("pi", "Suspended").await;
    cluster
        .until_met("no pods", async || uids(&cluster).await.is_empty())
        .await;
    let start = tokio::time::Instant::now();
    cluster.patch(&cluster.jobs(), "pi", suspended(false)).await;
    cluster.until("pi", "Running").await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(4), "it ran after {took:?}");
    let after = secrets(&cluster).await;
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.uid, before.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn s11_the_keys_of_a_finished_job_are_gone() {
    let mut cluster = cluster_with_agent(launchers_succeed);
    cluster.start_operator();
    let mut job = by_agent("pi");
    job["spec"]["runPolicy"] = json!({"cleanPodPolicy": "All"});
    cluster.submit(job).await;
    cluster.until("pi", "Succeeded").await;
    cluster
        .until_met("no Secret", async || names(&cluster).await.is_empty())
        .await;
    cluster.pass(60).await;
    // The pods that went after it say nothing of it.
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 1);
    cluster.start_operator();
    cluster.pass(60).await;
    assert_eq!(cluster.faults.calls("POST secrets").len(), 1);
}

/// Whoever tidies up after a job deletes its pods one by one. Each of them could be a sign that somebody
/// deleted the keys too, but they are gone.
#[tokio::test(start_paused = true)]
async fn s11_keys_that_are_gone_are_not_deleted_again_with_each_pod() {
    let mut cluster = cluster_with_agent(launchers_succeed);
    cluster.start_operator();
    let mut job = by_agent("pi");
    job["spec"]["runPolicy"] = json!({"cleanPodPolicy": "None"});
    cluster.submit(job).await;
    cluster.until("pi", "Succeeded").await;
    cluster
        .until_met("no Secret", async || names(&cluster).await.is_empty())
        .await;
    for worker in ["pi-worker-0", "pi-worker-1"] {
        cluster.delete(&cluster.pods(), worker).await;
        cluster.pass(60).await;
    }
    assert_eq!(cluster.faults.calls("DELETE secrets").len(), 1);
}

/// A job begins with keys for more workers than it has; beyond those it says what to do.
#[tokio::test(start_paused = true)]
async fn s08_a_job_that_outgrows_its_keys_says_so_and_resumes_with_more() {
    let mut cluster = cluster_with_agent(all_run);
    cluster.start_operator();
    cluster.submit(by_agent("pi")).await;
    cluster.until("pi", "Running").await;
    let grow = json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 300}}}});
    cluster.patch(&cluster.jobs(), "pi", grow).await;
    let says = |job: &DynamicObject| {
        let message = job.data.pointer("/status/muster/message");
        let message = message.and_then(Value::as_str).unwrap_or_default();
        message.contains("256 of 300") && message.contains("suspend and resume")
    };
    cluster.until_job("pi", "its keys are used up", says).await;
    for suspend in [true, false] {
        let patch = json!({"spec": {"runPolicy": {"suspend": suspend}}});
        cluster.patch(&cluster.jobs(), "pi", patch).await;
        let kind = if suspend { "Suspended" } else { "Running" };
        cluster.until("pi", kind).await;
    }
    let pods = cluster.pods().list(&Default::default()).await;
    assert_eq!(pods.expect("pods are listed").items.len(), 301);
}
