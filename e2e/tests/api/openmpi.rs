//! The openmpi component on the real API server: bad parameters are refused by name and good ones are not,
//! its objects are those of the component, and workers are told of the end.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, name};
use e2e::condition;
use e2e::figures::say;
use e2e::operator::repository;
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;

const END: &str = "/metadata/annotations/muster.dev~1end";

fn path(fixture: &ApiFixture, job: &str) -> String {
    let namespace = &fixture.namespace;
    format!("/apis/muster.dev/v1alpha1/namespaces/{namespace}/openmpis/{job}")
        .trim_end_matches('/')
        .to_owned()
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "OpenMPI",
        "metadata": {"name": name},
        "spec": {"image": "i", "secret": "keys", "workers": 2, "exec": "mpiexec hostname"},
    })
}

fn await_end(fixture: &ApiFixture, job: &str, end: &str) -> Result<Value> {
    wait_for(&format!("{job} to be {end}"), SOON, || {
        let found = fixture
            .api
            .get(&path(fixture, job))?
            .context("the job is gone")?;
        Ok(Some(found).filter(|job| condition(job, end) == Some("True")))
    })
}

fn run(fixture: &ApiFixture, job: &str) -> Result<Vec<Value>> {
    let workers = fixture.await_pods(job, "worker", 2)?;
    fixture.set(&workers, PodState::Ready)?;
    let master = fixture.await_pods(job, "launcher", 1)?;
    fixture.set(&master, PodState::Ready)?;
    Ok(master)
}

#[test]
fn openmpi_a5_a16_a17_objects_are_the_components_and_workers_stay() -> Result<()> {
    let fixture = new_fixture("openmpi")?;
    let operator = fixture.operator()?;
    fixture.api.create(&path(&fixture, ""), &job("hello"))?;
    let master = run(&fixture, "hello")?;
    ensure!(name(&master[0]) == "hello-master", "{}", name(&master[0]));
    let workers = fixture.await_pods("hello", "worker", 2)?;
    ensure!(name(&workers[1]) == "hello-worker-1");
    let files = fixture.await_object("configmaps", "hello-assets")?;
    let wanted = format!(
        "hello-worker-0.hello.{0} slots=1\nhello-worker-1.hello.{0} slots=1\n",
        fixture.namespace
    );
    ensure!(files["data"]["hostfile"] == wanted.as_str(), "{files}");
    let service = fixture.await_object("services", "hello")?;
    ensure!(service["spec"]["ports"][0]["port"] == 12345, "{service}");
    ensure!(service["spec"]["selector"]["app"] == "hello", "{service}");
    ensure!(service["spec"]["clusterIP"] == "None", "{service}");
    ensure!(
        fixture.get("secrets", "hello-ssh")?.is_none(),
        "it made a key"
    );
    ensure!(workers.iter().all(|pod| pod.pointer(END).is_none()));

    fixture.set(&master, PodState::Succeeded)?;
    await_end(&fixture, "hello", "Succeeded")?;
    wait_for("workers to be told", SOON, || {
        let workers = fixture.pods("hello", "worker")?;
        ensure!(workers.len() == 2, "a worker is gone");
        let told = |pod: &Value| pod.pointer(END) == Some(&json!("Succeeded"));
        Ok(workers.iter().all(told).then_some(()))
    })?;
    operator.assert_alive()
}

#[test]
fn openmpi_a16_a_master_that_fails_is_a_job_that_fails() -> Result<()> {
    let fixture = new_fixture("openmpi")?;
    let _operator = fixture.operator()?;
    fixture.api.create(&path(&fixture, ""), &job("bad"))?;
    let master = run(&fixture, "bad")?;
    fixture.set(&master, e2e::api_fixture::FAILED)?;
    let job = await_end(&fixture, "bad", "Failed")?;
    ensure!(job["status"]["completionTime"].is_string(), "{job}");
    ensure!(job["status"]["muster"]["phase"] == "Failed", "{job}");
    Ok(())
}

#[test]
fn openmpi_a18_deletion_takes_everything_but_the_users_secret() -> Result<()> {
    let fixture = new_fixture("openmpi")?;
    let _operator = fixture.operator()?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"id_rsa": "a", "id_rsa.pub": "b", "authorized_keys": "b"}});
    let made = fixture.create("secrets", &secret)?;
    fixture.api.create(&path(&fixture, ""), &job("gone"))?;
    run(&fixture, "gone")?;
    let answer = fixture.api.send("DELETE", &path(&fixture, "gone"), None)?;
    answer.accepted()?;
    wait_for("the job's objects to go", SOON, || {
        for (resource, name) in [
            ("services", "gone"),
            ("configmaps", "gone-assets"),
            ("pods", "gone-master"),
            ("pods", "gone-worker-1"),
        ] {
            let held = fixture.get(resource, name)?;
            // Without a kubelet, nobody confirms the end of a pod that was placed.
            if held.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null()) {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })?;
    let kept = fixture
        .get("secrets", "keys")?
        .context("the user's Secret is gone")?;
    ensure!(
        kept["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"],
        "it was changed"
    );
    Ok(())
}

#[test]
fn openmpi_a3_defaults_are_the_components() -> Result<()> {
    let fixture = new_fixture("openmpi")?;
    let stored = fixture.api.create(&path(&fixture, ""), &job("stored"))?;
    let spec = &stored["spec"];
    for (parameter, default) in [
        ("gpu", json!(0)),
        ("cpu", json!("null")),
        ("memory", json!("null")),
        ("nodeSelector", json!("null")),
        ("initTimeout", json!(300)),
        ("imagePullPolicy", json!("IfNotPresent")),
        ("volumes", json!([])),
        ("useHostNetwork", json!("false")),
    ] {
        ensure!(
            spec[parameter] == default,
            "{parameter}: {}",
            spec[parameter]
        );
    }
    Ok(())
}

#[test]
fn openmpi_parameters_cannot_be_changed_because_pods_cannot() -> Result<()> {
    let fixture = new_fixture("openmpi")?;
    fixture.api.create(&path(&fixture, ""), &job("fixed"))?;
    for (parameter, value) in [
        ("image", json!("j")),
        ("workers", json!(3)),
        ("exec", json!("date")),
    ] {
        let patch = json!({"spec": {parameter: value}});
        let answer = fixture
            .api
            .send("PATCH", &path(&fixture, "fixed"), Some(&patch))?;
        let field = format!("spec.{parameter}: cannot be changed");
        ensure!(answer.message().contains(&field), "{answer:?}");
    }
    Ok(())
}

#[test]
fn openmpi_a_namespace_that_is_not_the_objects_is_marked() -> Result<()> {
    let fixture = new_fixture("openmpi")?;
    let _operator = fixture.operator()?;
    let mut elsewhere = job("elsewhere");
    elsewhere["spec"]["namespace"] = "kubeflow".into();
    fixture.api.create(&path(&fixture, ""), &elsewhere)?;
    wait_for("the job to be marked", SOON, || {
        let job = fixture
            .api
            .get(&path(&fixture, "elsewhere"))?
            .context("gone")?;
        let muster = &job["status"]["muster"];
        let named = muster["message"]
            .as_str()
            .is_some_and(|said| said.contains("spec.namespace"));
        Ok((muster["reason"] == "Invalid" && named).then_some(()))
    })
}

fn fixtures(kind: &str) -> Result<Vec<PathBuf>> {
    let folder = repository()
        .join("e2e/fixtures/openmpi_v1alpha1")
        .join(kind);
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    ensure!(!files.is_empty(), "{} is empty", folder.display());
    Ok(files)
}

fn refusal(fixture: &ApiFixture, file: &PathBuf) -> Result<Option<String>> {
    let args = ["create", "--dry-run=server", "--validate=false", "-n"];
    let args = [&args[..], &[&fixture.namespace, "-f", "-"]].concat();
    let answer = fixture
        .cluster
        .kubectl_with(&args, &fs::read_to_string(file)?);
    Ok(answer.err().map(|error| format!("{error:#}")))
}

#[test]
fn openmpi_a4_bad_parameters_are_refused_by_name_and_good_ones_are_not() -> Result<()> {
    let fixture = new_fixture("openmpi")?;
    let files = fixtures("refused")?;
    ensure!(files.len() >= 10);
    fixture.at_once(&files, |file| {
        let text = fs::read_to_string(file)?;
        let first = text.lines().next().unwrap_or_default();
        let wanted = first.strip_prefix("# names: ").context("names no field")?;
        match refusal(&fixture, file)? {
            None => bail!("{} is accepted", file.display()),
            Some(said) => ensure!(said.contains(wanted.trim()), "{}: {said}", file.display()),
        }
        Ok(())
    })?;
    fixture.at_once(&fixtures("accepted")?, |file| {
        match refusal(&fixture, file)? {
            None => Ok(()),
            Some(said) => bail!("{} is refused: {said}", file.display()),
        }
    })?;
    say(&format!(
        "{} bad OpenMPIs refused, each by its parameter",
        files.len()
    ));
    Ok(())
}
