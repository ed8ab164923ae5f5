//! kubeflow.org/v1 beside v2beta1, on the real API server: which version a job was written in is
//! known whoever reads or writes it, and a job of v1 lives as its clients expect. CRDs that other
//! operators left behind are upgraded with their jobs in place. An administrator may stop serving v1.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, name, uid};
use e2e::cluster_fixture::repository;
use e2e::figures::say;
use e2e::{condition, operator, wait_for};
use serde_json::{Value, json};

use super::fixture::new_fixture;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Fields that v1's Go types of the training operator know.
const KNOWN_TO_V1: [&str; 5] = [
    "slotsPerWorker",
    "cleanPodPolicy",
    "mainContainer",
    "mpiReplicaSpecs",
    "runPolicy",
];

fn path(fixture: &ApiFixture, version: &str, job: &str) -> String {
    let namespace = &fixture.namespace;
    format!("/apis/kubeflow.org/{version}/namespaces/{namespace}/mpijobs/{job}")
        .trim_end_matches('/')
        .to_owned()
}

fn job(version: &str, name: &str, workers: u32) -> Value {
    let template = json!({"spec": {"containers": [
        {"name": "mpi", "image": "pi", "command": ["mpirun", "pi"]}]}});
    let serving = json!({"spec": {"containers": [{"name": "mpi", "image": "pi"}]}});
    json!({
        "apiVersion": format!("kubeflow.org/{version}"),
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template},
            "Worker": {"replicas": workers, "template": serving},
        }},
    })
}

fn read(fixture: &ApiFixture, version: &str, name: &str) -> Result<Value> {
    let found = fixture.api.get(&path(fixture, version, name))?;
    found.with_context(|| format!("{name} cannot be read in {version}"))
}

/// What a client with typed objects writes back: only the fields of `spec` that it knows, whole.
fn typed_put(fixture: &ApiFixture, version: &str, name: &str, known: &[&str]) -> Result<Value> {
    let mut object = read(fixture, version, name)?;
    let spec = object["spec"].as_object_mut().context("no spec")?;
    spec.retain(|field, _| known.contains(&field.as_str()));
    object["metadata"]["labels"]["written-by"] = "typed-client".into();
    let answer = fixture
        .api
        .send("PUT", &path(fixture, version, name), Some(&object))?;
    answer.accepted()
}

#[test]
fn the_version_that_a_job_was_written_in_is_filled_in() -> Result<()> {
    let fixture = new_fixture("versions")?;
    for written in ["v1", "v2beta1"] {
        let answer = job(written, &format!("by-{written}"), 1);
        fixture.api.create(&path(&fixture, written, ""), &answer)?;
        for through in ["v1", "v2beta1"] {
            let read = read(&fixture, through, &format!("by-{written}"))?;
            ensure!(
                read["spec"]["muster"]["dialect"] == written,
                "written in {written}, read through {through}: {}",
                read["spec"]
            );
            ensure!(read["apiVersion"] == format!("kubeflow.org/{through}"));
        }
    }
    Ok(())
}

#[test]
fn a_typed_client_of_the_other_version_changes_no_meaning() -> Result<()> {
    let fixture = new_fixture("versions")?;
    let operator = fixture.operator()?;
    let recorded = |name: &str, dialect: &str| {
        fixture.await_job(name, &format!("dialect {dialect}"), SOON, |job| {
            job["status"]["muster"]["dialect"] == dialect
        })
    };
    let mut second = job("v2beta1", "second", 1);
    second["spec"]["mpiImplementation"] = "MPICH".into();
    fixture
        .api
        .create(&path(&fixture, "v2beta1", ""), &second)?;
    recorded("second", "v2beta1")?;
    let launcher = fixture.await_object("jobs", "second-launcher")?;
    fixture
        .api
        .create(&path(&fixture, "v1", ""), &job("v1", "first", 1))?;
    recorded("first", "v1")?;
    let pod = fixture.await_object("pods", "first-launcher")?;

    typed_put(&fixture, "v1", "second", &KNOWN_TO_V1)?;
    typed_put(
        &fixture,
        "v2beta1",
        "first",
        &["mpiReplicaSpecs", "runPolicy"],
    )?;
    for (name, dialect) in [("second", "v2beta1"), ("first", "v1")] {
        let generation = fixture.job(name)?["metadata"]["generation"].clone();
        fixture.await_job(name, "a look at the new version", SOON, |job| {
            job["status"]["observedGeneration"] == generation
        })?;
        recorded(name, dialect)?;
    }
    let again = fixture.await_object("jobs", "second-launcher")?;
    ensure!(
        uid(&again) == uid(&launcher),
        "the launcher Job was replaced"
    );
    ensure!(fixture.get("pods", "second-launcher")?.is_none());
    let again = fixture.await_object("pods", "first-launcher")?;
    ensure!(uid(&again) == uid(&pod), "the launcher pod was replaced");
    ensure!(fixture.get("jobs", "first-launcher")?.is_none());
    operator.assert_alive()
}

#[test]
fn kueue_suspends_and_resumes_a_v1_job_through_v2beta1() -> Result<()> {
    let fixture = new_fixture("versions")?;
    let _operator = fixture.operator()?;
    fixture
        .api
        .create(&path(&fixture, "v1", ""), &job("v1", "held.job", 2))?;
    fixture.await_pods("held.job", "worker", 2)?;
    let suspend = |suspend: bool| {
        fixture.edit(
            "held.job",
            &json!({"spec": {"runPolicy": {"suspend": suspend}}}),
        )
    };
    suspend(true)?;
    fixture.await_condition("held.job", "Suspended")?;
    fixture.await_pods("held.job", "worker", 0)?;
    fixture.await_pods("held.job", "master", 0)?;
    suspend(false)?;
    fixture.await_pods("held.job", "worker", 2)?;
    let launcher = fixture.await_pods("held.job", "master", 1)?;
    let owner = &launcher[0]["metadata"]["ownerReferences"][0];
    ensure!(owner["apiVersion"] == "kubeflow.org/v2beta1", "{owner}");
    Ok(())
}

#[test]
fn a_v1_job_runs_ends_and_goes_when_its_time_is_over() -> Result<()> {
    let fixture = new_fixture("versions")?;
    let _operator = fixture.operator()?;
    let mut wanted = job("v1", "pi", 2);
    wanted["spec"]["runPolicy"] =
        json!({"ttlSecondsAfterFinished": 2, "cleanPodPolicy": "Running"});
    fixture.api.create(&path(&fixture, "v1", ""), &wanted)?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    ensure!(name(&workers[1]) == "pi-worker-1");
    fixture.set(&workers, PodState::Ready)?;
    let launcher = fixture.await_pods("pi", "master", 1)?;
    ensure!(name(&launcher[0]) == "pi-launcher");
    let kind = "training.kubeflow.org/replica-type";
    ensure!(launcher[0]["metadata"]["labels"][kind] == "launcher");
    ensure!(
        fixture.get("services", "pi")?.is_none(),
        "v1 has no Service"
    );
    fixture.set(&launcher, PodState::Ready)?;
    fixture.await_condition("pi", "Running")?;
    fixture.set(&launcher, PodState::Succeeded)?;
    let over = fixture.await_condition("pi", "Succeeded")?;
    let times: Vec<&str> = ["Created", "Succeeded"]
        .iter()
        .filter_map(|kind| {
            let conditions = over["status"]["conditions"].as_array()?;
            let found = conditions.iter().find(|c| c["type"] == *kind)?;
            found["lastTransitionTime"].as_str()
        })
        .collect();
    ensure!(times[0] < times[1], "{times:?}");
    ensure!(over["status"]["completionTime"].is_string());
    wait_for("the job to go", SOON, || {
        Ok(fixture.get("mpijobs", "pi")?.is_none().then_some(()))
    })?;
    Ok(())
}

#[test]
fn a_failed_worker_fails_a_v1_job_by_name() -> Result<()> {
    let fixture = new_fixture("versions")?;
    let _operator = fixture.operator()?;
    fixture
        .api
        .create(&path(&fixture, "v1", ""), &job("v1", "pi", 2))?;
    let workers = fixture.await_pods("pi", "worker", 2)?;
    fixture.set(&workers[..1], PodState::Ready)?;
    fixture.set(&workers[1..], e2e::api_fixture::FAILED)?;
    let failed = fixture.await_condition("pi", "Failed")?;
    let text = failed["status"]["conditions"].to_string();
    ensure!(text.contains("pi-worker-1"), "{text}");
    ensure!(condition(&failed, "Created") == Some("True"));
    Ok(())
}

#[test]
fn a_finalizer_of_others_does_not_keep_the_pods() -> Result<()> {
    let fixture = new_fixture("versions")?;
    let _operator = fixture.operator()?;
    let mut wanted = job("v1", "pi", 1);
    wanted["metadata"]["finalizers"] = json!(["flyte.org/finalizer-k8s"]);
    fixture.api.create(&path(&fixture, "v1", ""), &wanted)?;
    fixture.await_pods("pi", "worker", 1)?;
    fixture.await_pods("pi", "master", 1)?;
    fixture.api.delete(&path(&fixture, "v1", "pi"))?;
    fixture.await_pods("pi", "worker", 0)?;
    fixture.await_pods("pi", "master", 0)?;
    let held = fixture.job("pi")?;
    ensure!(held["metadata"]["finalizers"][0] == "flyte.org/finalizer-k8s");
    fixture.edit("pi", &json!({"metadata": {"finalizers": null}}))?;
    Ok(())
}

/// The shipped CRD under another group, so that no other test is disturbed.
fn shipped(fixture: &ApiFixture, group: &str) -> Result<Value> {
    let mut crd = fixture
        .api
        .get(&format!("{CRDS}/mpijobs.kubeflow.org"))?
        .context("the CRD is installed")?;
    crd["metadata"] = json!({"name": format!("mpijobs.{group}")});
    crd["spec"]["group"] = group.into();
    crd["spec"]["names"]["categories"] = json!([]);
    if let Some(crd) = crd.as_object_mut() {
        crd.remove("status");
    }
    Ok(crd)
}

/// What another operator's CRD looks like: one version, and its own idea of a schema.
fn of_another_operator(shipped: &Value, version: &str) -> Value {
    let mut crd = shipped.clone();
    let lax = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd["spec"]["versions"] = json!([{"name": version, "served": true, "storage": true,
        "subresources": {"status": {}}, "schema": {"openAPIV3Schema": lax}}]);
    crd
}

/// A CRD that stored jobs in one version is replaced by ours while they live.
fn upgrade(stored_in: &str) -> Result<()> {
    let fixture = new_fixture("versions")?;
    let group = format!("from-{stored_in}.{}.test", fixture.namespace);
    let ours = shipped(&fixture, &group)?;
    let crd = format!("{CRDS}/mpijobs.{group}");
    let theirs = of_another_operator(&ours, stored_in);
    fixture.api.create(CRDS, &theirs)?;

    let namespace = &fixture.namespace;
    let at = |version: &str| format!("/apis/{group}/{version}/namespaces/{namespace}/mpijobs");
    let mut old = job(stored_in, "old", 2);
    old["apiVersion"] = format!("{group}/{stored_in}").into();
    let jobs = at(stored_in);
    wait_for("their CRD to be served", Duration::from_secs(30), || {
        fixture.api.create(&jobs, &old).map(Some)
    })?;
    let status = json!({"status": {"conditions": [{"type": "Created", "status": "True"}]}});
    fixture.api.merge(&format!("{jobs}/old/status"), &status)?;

    fixture.api.merge(&crd, &json!({"spec": ours["spec"]}))?;
    for version in ["v1", "v2beta1"] {
        let path = format!("{}/old", at(version));
        let read = wait_for("our CRD to be served", Duration::from_secs(30), || {
            let read = fixture.api.get(&path)?;
            Ok(read.filter(|job| !job["spec"]["muster"].is_null()))
        })?;
        ensure!(
            read["spec"]["muster"]["dialect"] == stored_in,
            "{}",
            read["spec"]
        );
        ensure!(read["spec"]["mpiReplicaSpecs"] == old["spec"]["mpiReplicaSpecs"]);
        ensure!(read["status"]["conditions"][0]["type"] == "Created");
    }
    // As the operator and Kueue write: a status, then a patch, both through v2beta1.
    let path = format!("{}/old", at("v2beta1"));
    let said = json!({"status": {"muster": {"dialect": stored_in}}});
    fixture.api.merge(&format!("{path}/status"), &said)?;
    let patch = json!({"spec": {"runPolicy": {"suspend": true}}});
    let written = fixture.api.merge(&path, &patch)?;
    ensure!(written["spec"]["muster"]["dialect"] == stored_in);
    let stored =
        fixture.api.get(&crd)?.context("the CRD is there")?["status"]["storedVersions"].take();
    say(&format!(
        "upgraded in place from {stored_in}; stored versions are now {stored}"
    ));
    fixture.api.delete(&crd)
}

#[test]
fn a_crd_of_the_training_operator_is_upgraded_in_place() -> Result<()> {
    upgrade("v1")
}

#[test]
fn a_crd_of_the_mpi_operator_is_upgraded_in_place() -> Result<()> {
    upgrade("v2beta1")
}

/// kubectl shows the version that Kubernetes prefers, which is v1 wherever it is served.
#[test]
fn v04_what_kubectl_shows_is_applied_again_without_a_change() -> Result<()> {
    let fixture = new_fixture("versions")?;
    let _operator = fixture.operator()?;
    let kubectl = |args: &[&str], input: &str| {
        let namespaced = [&["--namespace", &fixture.namespace], args].concat();
        fixture.cluster.kubectl_with(&namespaced, input)
    };
    for written_in in ["v1", "v2beta1"] {
        let name = format!("from-{written_in}");
        let manifest = job(written_in, &name, 2).to_string();
        kubectl(&["apply", "--filename=-"], &manifest)?;
        fixture.await_condition(&name, "Created")?;
        let before = read(&fixture, "v2beta1", &name)?;

        let get = ["get", "mpijobs.kubeflow.org", &name, "--output=yaml"];
        // kubectl applies what it showed only if nobody wrote a status since.
        let shown = wait_for("what is shown to be applied", SOON, || {
            let shown = kubectl(&get, "")?;
            let applied = kubectl(&["apply", "--filename=-"], &shown);
            Ok(applied.is_ok().then_some(shown))
        })?;
        ensure!(shown.contains("apiVersion: kubeflow.org/v1\n"), "{shown}");
        let after = read(&fixture, "v2beta1", &name)?;
        ensure!(after["spec"] == before["spec"], "{}", after["spec"]);
        ensure!(after["metadata"]["generation"] == before["metadata"]["generation"]);
        ensure!(after["status"]["muster"]["dialect"] == written_in);
    }
    Ok(())
}

/// The overlay's CRD under another group, so that no other test is disturbed.
#[test]
fn v04_without_v1_kubectl_shows_v2beta1() -> Result<()> {
    let fixture = new_fixture("versions")?;
    let group = format!("without-v1.{}.test", fixture.namespace);
    let mut crd = shipped(&fixture, &group)?;
    let overlay = repository().join("deploy/overlays/v2beta1-only");
    let installed = operator::objects(&fixture.cluster, &["-k", &overlay.to_string_lossy()])?;
    let installed = installed
        .iter()
        .find(|object| object["metadata"]["name"] == "mpijobs.kubeflow.org");
    let installed = installed.context("the overlay has no CRD of MPIJobs")?;
    crd["spec"]["versions"] = installed["spec"]["versions"].clone();
    fixture.api.create(CRDS, &crd)?;

    let resource = format!("mpijobs.{group}");
    let mut written = job("v2beta1", "shown", 2);
    written["apiVersion"] = format!("{group}/v2beta1").into();
    let create = ["create", "--namespace", &fixture.namespace, "--filename=-"];
    wait_for("the CRD to be served", SOON, || {
        let created = fixture.cluster.kubectl_with(&create, &written.to_string());
        Ok(created.ok())
    })?;
    let get = ["get", "--namespace", &fixture.namespace, &resource];
    let shown = fixture
        .cluster
        .kubectl(&[&get[..], &["--output=yaml"]].concat())?;
    ensure!(
        shown.contains(&format!("apiVersion: {group}/v2beta1\n")),
        "{shown}"
    );
    let of_v1 = format!("/apis/{group}/v1/namespaces/{}/mpijobs", fixture.namespace);
    let answer = fixture.api.send("GET", &of_v1, None)?;
    ensure!(answer.accepted().is_err(), "v1 is served");
    fixture.api.delete(&format!("{CRDS}/{resource}"))
}
