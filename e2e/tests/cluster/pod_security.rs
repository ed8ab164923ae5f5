//! Pod Security `restricted` in its newest version, enforced where the operator runs and where its jobs do: nobody who
//! installs muster or submits a job is warned, and nothing that is created for a job is against it.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::deployed::{self, with_test_images};
use e2e::cluster_fixture::pi::{Mpi, PI, User, pi};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, agent, repository};
use e2e::jobs::MpiJob;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use crate::with_cluster;

const LATEST: &str = "restricted:latest";
/// What users of the restricted jobs must write: the user, and the rest of the level.
const USER: u32 = 1000;

fn of_pod() -> Value {
    json!({"runAsUser": USER, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
}

fn of_container() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

fn restricted(mut job: MpiJob, name: &str) -> Value {
    job = job.with("/metadata/name", name);
    for role in ["Launcher", "Worker"] {
        let spec = |field: &str| format!("/spec/mpiReplicaSpecs/{role}/template/spec/{field}");
        job = job
            .with(&spec("securityContext"), of_pod())
            .with(&spec("containers/0/securityContext"), of_container());
    }
    job.json().clone()
}

/// A job of `kubeflow.org/v1`, which runs without sshd.
fn of_v1(name: &str) -> Value {
    let replica = |count: u32, command: &[&str]| {
        let container = json!({"name": "mpi", "image": agent::image(Mpi::OpenMpi4),
            "command": command, "securityContext": of_container()});
        let pod = json!({"securityContext": of_pod(), "containers": [container]});
        json!({"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}})
    };
    json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"mpiReplicaSpecs": {
            "Launcher": replica(1, &["mpirun", "-n", "2", PI]), "Worker": replica(2, &[])}},
    })
}

fn enforce(fixture: &ClusterFixture) -> Result<()> {
    let labels = ["enforce", "warn", "audit"].map(|mode| {
        let key = format!("pod-security.kubernetes.io/{mode}");
        [format!("{key}=restricted"), format!("{key}-version=latest")]
    });
    let labels: Vec<_> = labels.iter().flatten().map(String::as_str).collect();
    let words = ["label", "namespace", &fixture.namespace];
    fixture.cluster.kubectl(&[&words[..], &labels].concat())?;
    Ok(())
}

/// Creates an object, of which the API server must not warn.
fn create(fixture: &ClusterFixture, object: &Value) -> Result<()> {
    let words = ["create", "--namespace", &fixture.namespace, "--filename=-"];
    fixture
        .cluster
        .kubectl_unwarned(&words, &object.to_string())?;
    Ok(())
}

#[test]
fn jobs_of_kubeflow_run_where_restricted_is_enforced_and_nobody_is_warned() -> Result<()> {
    with_cluster("pod-security", |fixture| {
        enforce(fixture)?;
        let anything = json!({"apiVersion": "v1", "kind": "PodTemplate",
            "metadata": {"name": "any"}, "template": {"spec": {"containers": [
                {"name": "any", "image": agent::image(Mpi::OpenMpi4)}]}}});
        let warned = create(fixture, &anything);
        let warned = warned.err().context("the API server warns of nothing")?;
        ensure!(format!("{warned:#}").contains(LATEST), "{warned:#}");

        let mpirun = ["mpirun", "-n", "2", PI];
        let ssh = restricted(pi(Mpi::OpenMpi4, User::Mpiuser, 2), "ssh");
        let without_ssh = restricted(agent::job(Mpi::OpenMpi4, 2, &mpirun), "agent");
        create(fixture, &ssh)?;
        create(fixture, &without_ssh)?;
        create(fixture, &of_v1("old"))?;
        fixture.submitted("ssh").succeeded_on_workers(2)?;
        fixture.submitted("agent").succeeded_on_workers(2)?;
        wait_for("the job of v1 to succeed", PATIENCE, || {
            let kind = "mpijobs.v1.kubeflow.org";
            let job = fixture.cluster.get(&fixture.namespace, kind, "old")?;
            Ok(job.filter(|job| condition(job, "Succeeded") == Some("True")))
        })?;
        assert_created_under(fixture)
    })
}

/// Everything of the jobs was created under the level, and nothing against it.
fn assert_created_under(fixture: &ClusterFixture) -> Result<()> {
    let mut requests = fixture.requests()?;
    requests.retain(|request| request.verb == "create" && request.code < 300);
    let control = |request: &e2e::audit::Request| request.resource == "podtemplates";
    let (control, requests): (Vec<_>, Vec<_>) = requests.into_iter().partition(control);
    ensure!(
        control.iter().all(|request| !request.violations.is_empty()),
        "the audit log names no violation of what is one"
    );
    for request in &requests {
        ensure!(request.violations.is_empty(), "{request:?}");
    }
    // Of each job two workers and a launcher, whoever creates that.
    let pods = requests.iter().filter(|request| request.resource == "pods");
    let enforced: Vec<_> = pods.map(|pod| pod.enforced.as_str()).collect();
    ensure!(enforced == [LATEST; 9], "{enforced:?}");
    Ok(())
}

#[test]
fn the_operator_is_installed_where_restricted_is_enforced_and_nobody_is_warned() -> Result<()> {
    with_cluster("pod-security-install", |fixture| {
        let cluster = &fixture.cluster;
        let namespace = cluster.get("", "namespace", deployed::NAMESPACE)?;
        let namespace = namespace.context("the operator's namespace is gone")?;
        let labels = &namespace["metadata"]["labels"];
        for (mode, expected) in [
            ("enforce", "restricted"),
            ("enforce-version", "latest"),
            ("warn", "restricted"),
            ("audit", "restricted"),
        ] {
            let label = &labels[format!("pod-security.kubernetes.io/{mode}")];
            ensure!(label == expected, "{mode}: {label}");
        }
        let file = fs::read_to_string(repository().join("deploy/muster.yaml"))?;
        let apply = ["apply", "--dry-run=server", "--filename=-"];
        cluster.kubectl_unwarned(&apply, &with_test_images(&file))?;
        Ok(())
    })
}
