//! Status writes.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{Cluster, DEFINITION, all_run, mpi_job};

/// A log that a test can read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self, words: &str) -> usize {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| line.contains(words)).count()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The definition as it would be without these fields of the status.
fn without(fields: &[&str]) -> String {
    let mut definition: Value = serde_saphyr::from_str(DEFINITION).expect("the definition is YAML");
    for version in definition["spec"]["versions"]
        .as_array_mut()
        .expect("it has versions")
    {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        let status = schema["properties"]["status"]["properties"].as_object_mut();
        let status = status.expect("the status has a schema");
        fields.iter().for_each(|field| _ = status.remove(*field));
    }
    definition.to_string()
}

#[tokio::test(start_paused = true)]
async fn c12_fields_that_the_definition_drops_are_not_written_again_and_again() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let mut cluster =
        Cluster::with_definition(all_run, &without(&["muster", "observedGeneration"]));
    cluster.start_operator();
    cluster.submit(mpi_job("one")).await;
    cluster.submit(mpi_job("two")).await;
    cluster.until("one", "Running").await;
    cluster.until("two", "Running").await;
    cluster.pass(90).await;
    let before = cluster.faults.writes().len();
    cluster.pass(300).await;
    let writes = cluster.faults.writes().len() - before;
    assert_eq!(writes, 0, "writes in five minutes at rest");
    assert_eq!(log.lines("status.muster"), 1, "it is said once");
}

#[tokio::test(start_paused = true)]
async fn c12_a_definition_that_was_repaired_is_noticed_without_a_restart() {
    let mut cluster = Cluster::with_definition(all_run, &without(&["muster"]));
    cluster.start_operator();
    cluster.submit(mpi_job("one")).await;
    cluster.until("one", "Running").await;
    cluster.pass(90).await;
    let definitions = kube::Api::<DynamicObject>::all_with(
        cluster.client.clone(),
        &kube::core::ApiResource {
            group: "apiextensions.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "apiextensions.k8s.io/v1".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            plural: "customresourcedefinitions".to_owned(),
        },
    );
    let whole: Value = serde_saphyr::from_str(DEFINITION).expect("the definition is YAML");
    let spec = json!({"spec": whole["spec"]});
    cluster
        .patch(&definitions, "mpijobs.kubeflow.org", spec)
        .await;
    // Nothing happens to the job: what it lacks is all that there is to write.
    cluster.pass(900).await;
    let job = cluster.jobs().get("one").await.expect("the job exists");
    let muster = &job.data["status"]["muster"];
    assert_eq!(muster["phase"], "Running", "{}", job.data["status"]);
}

/// A pod that takes this many of the node's 800 CPUs.
fn filler(cpus: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "filler", "namespace": "default"},
        "spec": {"containers": [{
            "name": "main", "image": "none", "resources": {"requests": {"cpu": cpus}},
        }]},
    })
}

/// A job whose launcher fits no node, so that no condition changes when its workers start.
fn without_launcher(name: &str) -> Value {
    let mut job = mpi_job(name);
    for (role, cpus) in [("Launcher", 900), ("Worker", 300)] {
        let template = &mut job["spec"]["mpiReplicaSpecs"][role]["template"];
        template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpus}});
    }
    job
}

#[tokio::test(start_paused = true)]
async fn v03_the_status_is_at_most_a_second_behind_the_pods() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.create(&cluster.pods(), filler(700)).await;
    cluster.submit(without_launcher("seen")).await;
    let reason = |job: &DynamicObject| job.data["status"]["muster"]["reason"].clone();
    let held = |job: &DynamicObject| reason(job) == "Unschedulable";
    cluster.until_job("seen", "its workers to wait", held).await;
    cluster.pass(20).await;

    cluster.delete(&cluster.pods(), "filler").await;
    let begun = Instant::now();
    let mut false_for = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(10) {
        let pods = cluster.pods().list(&Default::default()).await;
        let running = |pod: &&DynamicObject| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            name.contains("worker") && pod.data["status"]["phase"] == "Running"
        };
        let runs = pods.expect("pods are listed").items;
        let runs = runs.iter().filter(running).count();
        let job = cluster.jobs().get("seen").await.expect("the job exists");
        let said = &job.data["status"]["replicaStatuses"]["Worker"]["active"];
        let said = said.as_u64().unwrap_or_default();
        let is_true = said == runs as u64 && (runs < 2 || reason(&job) != "Unschedulable");
        let step = Duration::from_millis(50);
        false_for = match is_true {
            true => Duration::ZERO,
            false => false_for + step,
        };
        assert!(false_for <= Duration::from_millis(1_100), "{}", job.data);
        tokio::time::sleep(step).await;
    }
    let job = cluster.jobs().get("seen").await.expect("the job exists");
    assert_eq!(job.data["status"]["muster"]["ready"], "2/2");
}

#[tokio::test(start_paused = true)]
async fn v03_a_plain_life_has_five_writes_of_its_status() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("plain")).await;
    cluster.until("plain", "Running").await;
    cluster.pass(120).await;
    let statuses = cluster.faults.calls("PATCH mpijobs/plain/status").len();
    assert!(statuses <= 4, "{statuses} and the last one is to come");
}

/// Replaces the job with one that `edit` made of it, and returns the answer, as clients with a typed
/// copy of the job do.
async fn update(
    cluster: &Cluster,
    job: &DynamicObject,
    edit: impl Fn(&mut Value),
) -> Result<DynamicObject, kube::Error> {
    let mut edited = job.clone();
    edit(&mut edited.data);
    let name = job
        .metadata
        .name
        .as_deref()
        .expect("a stored job has a name");
    cluster
        .jobs()
        .replace(name, &Default::default(), &edited)
        .await
}

#[tokio::test(start_paused = true)]
async fn v01_a_client_that_edits_and_resumes_without_reading_does_not_conflict() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    for pause_millis in [0, 30, 300, 1_500, 4_000] {
        let name = format!("queued-{pause_millis}");
        let mut job = mpi_job(&name);
        job["spec"]["runPolicy"] = json!({"suspend": true});
        cluster.submit(job).await;
        cluster.until(&name, "Suspended").await;
        cluster.pass(10).await;
        let job = cluster.jobs().get(&name).await.expect("the job exists");
        let edited = update(&cluster, &job, |job| {
            job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 3.into();
        });
        let edited = edited.await.expect("nobody else writes");
        tokio::time::sleep(Duration::from_millis(pause_millis)).await;
        let resumed = update(&cluster, &edited, |job| {
            job["spec"]["runPolicy"]["suspend"] = false.into();
        });
        let resumed = resumed.await;
        assert!(resumed.is_ok(), "after {pause_millis} ms: {resumed:?}");
        cluster.until(&name, "Running").await;
    }
}

#[tokio::test(start_paused = true)]
async fn v01_the_generation_of_an_edit_is_written_when_nobody_edits_any_more() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("edited")).await;
    cluster.until("edited", "Running").await;
    cluster.pass(90).await;
    let before = cluster.faults.writes().len();
    for slots in 2..6 {
        let edit = json!({"spec": {"slotsPerWorker": slots}});
        cluster.patch(&cluster.jobs(), "edited", edit).await;
        cluster.pass(3).await;
    }
    let seen = |job: &DynamicObject| {
        let generation = job.metadata.generation.expect("a stored job has one");
        job.data["status"]["observedGeneration"] == generation
    };
    let what = "its generation to be seen";
    cluster.until_job("edited", what, seen).await;
    cluster.pass(60).await;
    let writes = cluster.faults.writes().split_off(before);
    let statuses = writes.iter().filter(|line| line.ends_with("/status"));
    assert_eq!(statuses.count(), 1, "{writes:?}");
}
