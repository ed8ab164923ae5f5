//! What people and programs see of a job from outside: events field by field, and kubectl's tables
//! and waits.

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::SOON;
use e2e::jobs::MpiJob;
use serde_json::json;

use super::fixture::new_fixture;
use super::lifecycle::await_events;

/// Of several definitions with jobs of this kind, kubectl takes the bare name for any.
const JOBS: &str = "mpijobs.kubeflow.org";

#[test]
fn an_event_has_the_exact_shape_that_clients_match() -> Result<()> {
    let fixture = new_fixture("event")?;
    let _operator = fixture.operator()?;
    let job = fixture.submit(&MpiJob::named("pi").workers(1))?;
    await_events(&fixture, "pi", &["MPIJobCreated"])?;
    let mut event = fixture.events("pi")?.remove(0);

    let metadata = event["metadata"].take();
    let named = metadata["name"].as_str().unwrap_or_default();
    let suffix = named
        .strip_prefix("pi.")
        .context("an event is named after its job")?;
    ensure!(
        u64::from_str_radix(suffix, 16).is_ok_and(|nanos| nanos > 1 << 60),
        "{named}"
    );
    let first = event["firstTimestamp"].take();
    ensure!(first.is_string() && event["lastTimestamp"].take() == first);
    ensure!(
        event["involvedObject"]["resourceVersion"]
            .take()
            .is_string()
    );
    let namespace = &fixture.namespace;
    let expected = json!({
        "metadata": null,
        "involvedObject": {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "name": "pi",
            "namespace": namespace,
            "uid": job["metadata"]["uid"],
            "resourceVersion": null,
        },
        "type": "Normal",
        "reason": "MPIJobCreated",
        "message": format!("MPIJob {namespace}/pi is created."),
        "source": {"component": "mpi-job-controller"},
        "reportingComponent": "mpi-job-controller",
        "reportingInstance": "",
        "firstTimestamp": null,
        "lastTimestamp": null,
        "eventTime": null,
        "count": 1,
    });
    // The API server leaves the type of list items out.
    let event = event.as_object_mut().context("an event is an object")?;
    event.remove("kind");
    event.remove("apiVersion");
    ensure!(
        *event == *expected.as_object().context("so is this")?,
        "{event:?}\nis not {expected}"
    );
    Ok(())
}

#[test]
fn kubectl_shows_state_and_waits_for_success() -> Result<()> {
    let fixture = new_fixture("kubectl")?;
    let _operator = fixture.operator()?;
    let in_namespace = |words: &[&str]| {
        fixture
            .cluster
            .kubectl(&[&["-n", fixture.namespace.as_str()], words].concat())
    };
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.run("pi", 2)?;
    fixture.await_job("pi", "2/2", SOON, |job| {
        job["status"]["muster"]["phase"] == "Running" && job["status"]["muster"]["ready"] == "2/2"
    })?;
    let table = in_namespace(&["get", JOBS])?;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    ensure!(
        lines[0] == ["NAME", "STATE", "READY", "REASON", "AGE"],
        "{table}"
    );
    ensure!(lines[1][..3] == ["pi", "Running", "2/2"], "{table}");

    fixture.finish("pi")?;
    in_namespace(&[
        "wait",
        "--for=condition=Succeeded",
        &format!("{JOBS}/pi"),
        "--timeout=20s",
    ])?;
    in_namespace(&[
        "wait",
        "--for=jsonpath={.status.muster.finished}=true",
        &format!("{JOBS}/pi"),
    ])?;
    let table = in_namespace(&["get", JOBS, "pi", "--no-headers"])?;
    let words: Vec<&str> = table.split_whitespace().collect();
    ensure!(words[..2] == ["pi", "Succeeded"], "{table}");
    Ok(())
}

#[test]
fn one_word_lists_the_jobs_of_every_dialect() -> Result<()> {
    let fixture = new_fixture("kubectl")?;
    let walk = json!({
        "apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob",
        "metadata": {"name": "walk"},
        "spec": {"worker": {"cmd": ["walk"], "template": {"spec": {"containers": [
            {"name": "mpi-worker", "image": "w"}]}}}},
    });
    let namespace = &fixture.namespace;
    let jobs = format!("/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/mpijobs");
    fixture.api.create(&jobs, &walk)?;
    fixture.submit(&MpiJob::named("pi").workers(1))?;
    let listed = fixture.cluster.kubectl(&["get", "mpi", "-A"])?;
    for job in [
        "mpijob.kubeflow.org/pi",
        "mpijob.batch.tensorstack.dev/walk",
    ] {
        let is_there = |line: &str| line.contains(namespace.as_str()) && line.contains(job);
        ensure!(listed.lines().any(is_there), "no {job} in\n{listed}");
    }
    for column in ["STATE", "PHASE", "READY", "REASON", "AGE"] {
        ensure!(listed.contains(column), "no {column} in\n{listed}");
    }
    Ok(())
}

#[test]
fn kubernetes_own_roles_cover_the_jobs_of_every_dialect() -> Result<()> {
    let fixture = new_fixture("kubectl")?;
    let namespace = fixture.namespace.as_str();
    for (role, user) in [("edit", "editor"), ("view", "viewer")] {
        let name = format!("{user}-binding");
        let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
        let words = [
            "create",
            "rolebinding",
            "-n",
            namespace,
            &name,
            &role,
            &user,
        ];
        fixture.cluster.kubectl(&words)?;
    }
    for resource in ["mpijobs.kubeflow.org", "mpijobs.batch.tensorstack.dev"] {
        for (user, verb, allowed) in [
            ("editor", "create", "yes"),
            ("editor", "delete", "yes"),
            ("viewer", "list", "yes"),
            ("viewer", "create", "no"),
        ] {
            let words = [
                "auth", "can-i", verb, resource, "-n", namespace, "--as", user,
            ];
            let output = fixture.cluster.command(&words).output()?;
            let said = String::from_utf8_lossy(&output.stdout);
            ensure!(
                said.trim() == allowed,
                "may {user} {verb} {resource}? {said}"
            );
        }
    }
    Ok(())
}
