//! bdap's MPIJob on the real API server, with the real StatefulSet controller and garbage collector: a
//! job's objects are what its clients read, follow every edit, and go with it; bad jobs are refused
//! by field. The numbers are those of its acceptance list.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::api_fixture::{ApiFixture, PodState, SOON, name, uid};
use e2e::audit::{Audit, table};
use e2e::figures::say;
use e2e::operator::repository;
use e2e::{condition, wait_for};
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// Everything that a job makes, by resource, with the end of its name.
const CHILDREN: [(&str, &str); 5] = [
    ("configmaps", "-config"),
    ("serviceaccounts", "-launcher"),
    ("roles", "-launcher"),
    ("rolebindings", "-launcher"),
    ("statefulsets", "-worker"),
];
/// A user who looks at a job finds out why it does not start within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// An operator that was started again has looked at everything by then.
const SETTLED: Duration = Duration::from_secs(4);

fn path(fixture: &ApiFixture, job: &str) -> String {
    let namespace = &fixture.namespace;
    let path = format!("/apis/batch.test.bdap.com/v1/namespaces/{namespace}/mpijobs/{job}");
    path.trim_end_matches('/').to_owned()
}

fn job(name: &str, workers: u32) -> Value {
    json!({
        "apiVersion": "batch.test.bdap.com/v1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "numWorkers": workers,
            "launcherTemplate": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "l", "image": "i", "args": ["old"]}],
                },
            },
            "workerTemplate": {
                "metadata": {"labels": {"team": "a", "app": "mine"}},
                "spec": {"containers": [{
                    "name": "w", "image": "i:1", "command": ["sleep"], "args": ["infinity"],
                    "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
                    "readinessProbe": {"exec": {"command": ["cat", "/ready.txt"]}},
                }]},
            },
        },
    })
}

fn submit(fixture: &ApiFixture, job: &Value) -> Result<Value> {
    fixture.api.create(&path(fixture, ""), job)
}

fn edit(fixture: &ApiFixture, job: &str, patch: &Value) -> Result<()> {
    fixture.api.merge(&path(fixture, job), patch).map(drop)
}

fn get(fixture: &ApiFixture, job: &str) -> Result<Value> {
    let found = fixture.api.get(&path(fixture, job))?;
    found.context("the job is gone")
}

fn await_status(fixture: &ApiFixture, name: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    let found = wait_for(&format!("the status of {name}"), SOON, || {
        Ok(Some(get(fixture, name)?).filter(|job| holds(&job["status"])))
    });
    found.with_context(|| match get(fixture, name) {
        Ok(job) => format!("it is {}", job["status"]),
        Err(error) => format!("{error:#}"),
    })
}

/// Makes every worker Ready as it comes, until something holds of all of them.
fn keep_ready(
    fixture: &ApiFixture,
    job: &str,
    what: &str,
    holds: impl Fn(&[Value]) -> bool,
) -> Result<Vec<Value>> {
    wait_for(what, SOON * 2, || {
        let pods = fixture.pods(job, "worker")?;
        let waiting = |pod: &&Value| condition(pod, "Ready") != Some("True");
        let waiting: Vec<Value> = pods.iter().filter(waiting).cloned().collect();
        fixture.set(&waiting, PodState::Ready)?;
        Ok((waiting.is_empty() && holds(&pods)).then_some(pods))
    })
}

/// All workers Ready, and the launcher's pod running.
fn run(fixture: &ApiFixture, job: &str, workers: usize) -> Result<Value> {
    keep_ready(fixture, job, "ready workers", |pods| pods.len() == workers)?;
    let launcher = fixture.await_pods(job, "launcher", 1)?;
    fixture.set(&launcher, PodState::Ready)?;
    await_status(fixture, job, |status| status["launcher"] == "Running")?;
    Ok(launcher[0].clone())
}

fn names(pods: &[Value]) -> Vec<&str> {
    pods.iter().map(name).collect()
}

#[test]
fn a05_to_a10_a_job_has_the_children_that_its_clients_read() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let operator = fixture.operator()?;
    let made = submit(&fixture, &job("train", 3))?;
    let workers = fixture.await_pods("train", "worker", 3)?;
    ensure!(names(&workers) == ["train-worker-0", "train-worker-1", "train-worker-2"]);
    let container = &workers[0]["spec"]["containers"][0];
    ensure!(container["command"] == json!(["sleep"]), "{container}");
    ensure!(container["env"].is_null(), "{container}");
    let mounts = container["volumeMounts"].as_array().map_or(0, Vec::len);
    ensure!(mounts == 1, "only the service account's: {container}");

    fixture.set(&workers[..2], PodState::Ready)?;
    let status = await_status(&fixture, "train", |status| status["readyWorkers"] == 2)?;
    ensure!(status["status"]["launcher"] == "WaitingWorkers");
    ensure!(
        fixture.get("pods", "train-launcher")?.is_none(),
        "too early"
    );
    fixture.set(&workers[2..], PodState::Ready)?;
    let launcher = run(&fixture, "train", 3)?;
    ensure!(name(&launcher) == "train-launcher");

    for (resource, end) in CHILDREN {
        let child = fixture.await_object(resource, &format!("train{end}"))?;
        let owner = &child["metadata"]["ownerReferences"][0];
        ensure!(owner["uid"] == uid(&made), "{resource}: {owner}");
        ensure!(owner["controller"] == true, "{resource}: {owner}");
    }
    ensure!(fixture.get("services", "train")?.is_none());
    let secrets = fixture.list("secrets")?;
    let is_its_own = |secret: &Value| name(secret).starts_with("train-");
    ensure!(!secrets.iter().any(is_its_own), "{secrets:?}");
    let config = fixture.await_object("configmaps", "train-config")?;
    let hosts = "train-worker-0 slots=1\ntrain-worker-1 slots=1\ntrain-worker-2 slots=1\n";
    ensure!(config["data"]["hostfile"] == hosts, "{config}");
    ensure!(config["data"].as_object().map(|data| data.len()) == Some(2));
    let set = fixture.await_object("statefulsets", "train-worker")?;
    ensure!(set["spec"]["podManagementPolicy"] == "Parallel");
    ensure!(set["spec"]["selector"]["matchLabels"] == json!({"app": "train-worker"}));
    ensure!(launcher["spec"]["serviceAccountName"] == "train-launcher");
    ensure!(launcher["metadata"]["labels"]["team"] == "a");
    audit.assert_never_forbidden(&fixture.account.user)?;
    operator.assert_alive()
}

#[test]
fn a15_and_a16_edits_replace_workers_and_wait_for_the_launchers_deletion() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let _operator = fixture.operator()?;
    submit(&fixture, &job("train", 2))?;
    let launcher = run(&fixture, "train", 2)?;
    let before: Vec<String> = fixture
        .pods("train", "worker")?
        .iter()
        .map(|pod| uid(pod).to_owned())
        .collect();

    let image = json!([{"name": "w", "image": "i:2", "command": ["sleep"]}]);
    let patch = json!({"spec": {"workerTemplate": {"spec": {"containers": image}}}});
    edit(&fixture, "train", &patch)?;
    let after = keep_ready(&fixture, "train", "new workers", |pods| {
        let new = |pod: &Value| !before.contains(&uid(pod).to_owned());
        pods.len() == 2 && pods.iter().all(new)
    })?;
    ensure!(names(&after) == ["train-worker-0", "train-worker-1"]);
    for pod in &after {
        let container = &pod["spec"]["containers"][0];
        ensure!(container["image"] == "i:2", "{container}");
        ensure!(container["args"].is_null(), "what was removed stayed");
        ensure!(container["readinessProbe"].is_null(), "{container}");
    }
    let same = fixture.await_object("pods", "train-launcher")?;
    ensure!(uid(&same) == uid(&launcher), "the launcher was touched");

    let args = json!([{"name": "l", "image": "i", "args": ["new"]}]);
    let patch = json!({"spec": {"launcherTemplate": {"spec": {"containers": args}}}});
    edit(&fixture, "train", &patch)?;
    await_status(&fixture, "train", |status| {
        status["observedGeneration"] == 3
    })?;
    let same = fixture.await_object("pods", "train-launcher")?;
    ensure!(uid(&same) == uid(&launcher), "the launcher was touched");
    fixture
        .api
        .delete(&fixture.path("pods", "train-launcher"))?;
    let new = wait_for("another launcher", SOON, || {
        let pod = fixture.get("pods", "train-launcher")?;
        Ok(pod.filter(|pod| uid(pod) != uid(&launcher)))
    })?;
    ensure!(new["spec"]["containers"][0]["args"] == json!(["new"]));
    Ok(())
}

#[test]
fn a17_pods_hosts_and_rights_follow_the_number_of_workers() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let _operator = fixture.operator()?;
    submit(&fixture, &job("train", 3))?;
    let launcher = run(&fixture, "train", 3)?;
    for count in [2, 4] {
        edit(&fixture, "train", &json!({"spec": {"numWorkers": count}}))?;
        keep_ready(&fixture, "train", "that many workers", |pods| {
            pods.len() == count
        })?;
        let config = fixture.await_object("configmaps", "train-config")?;
        let hosts = config["data"]["hostfile"].as_str().unwrap_or_default();
        ensure!(hosts.lines().count() == count, "{hosts}");
        // The rights follow the pods.
        wait_for("rights to that many workers", SOON, || {
            let role = fixture.await_object("roles", "train-launcher")?;
            let names = role["rules"][1]["resourceNames"].as_array();
            Ok((names.map(Vec::len) == Some(count)).then_some(()))
        })?;
        let ready = format!("{count}/{count}");
        await_status(&fixture, "train", |status| {
            status["muster"]["ready"] == ready
        })?;
    }
    let same = fixture.await_object("pods", "train-launcher")?;
    ensure!(uid(&same) == uid(&launcher), "the launcher was touched");
    Ok(())
}

#[test]
fn a18_and_a20_workers_outlive_the_launcher_and_nothing_is_done_twice() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let operator = fixture.operator()?;
    submit(&fixture, &job("train", 2))?;
    let launcher = run(&fixture, "train", 2)?;
    fixture.set(std::slice::from_ref(&launcher), PodState::Succeeded)?;
    let job = await_status(&fixture, "train", |status| {
        status["launcher"] == "Succeeded"
    })?;
    ensure!(condition(&job, "Succeeded") == Some("True"));
    ensure!(job["status"]["completionTime"].is_string());
    ensure!(fixture.pods("train", "worker")?.len() == 2);

    operator.kill();
    let audit = Audit::from_now(&fixture.cluster)?;
    let operator = fixture.operator()?;
    std::thread::sleep(SETTLED);
    let writes = audit.writes_of(&fixture.account.user)?;
    ensure!(writes.is_empty(), "it writes:\n{}", table(&writes));

    fixture
        .api
        .delete(&fixture.path("pods", "train-launcher"))?;
    let again = fixture.await_pods("train", "launcher", 1)?;
    ensure!(uid(&again[0]) != uid(&launcher));
    let job = await_status(&fixture, "train", |status| status["launcher"] == "Pending")?;
    ensure!(condition(&job, "Succeeded") == Some("False"));
    ensure!(job["status"]["completionTime"].is_null());
    operator.assert_alive()
}

/// Whether the API server would let a job's launcher do something with a pod.
fn may(fixture: &ApiFixture, verb: &str, part: &str, pod: &str) -> Result<bool> {
    let namespace = &fixture.namespace;
    let asked = json!({"verb": verb, "resource": "pods", "subresource": part, "name": pod,
        "namespace": namespace});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{namespace}:train-launcher"),
            "resourceAttributes": asked,
        },
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    Ok(fixture.api.create(path, &review)?["status"]["allowed"] == true)
}

#[test]
fn a14_the_launcher_may_enter_its_own_workers_and_change_nothing() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let _operator = fixture.operator()?;
    submit(&fixture, &job("train", 2))?;
    run(&fixture, "train", 2)?;
    for (verb, part, pod, allowed) in [
        ("get", "exec", "train-worker-0", true),
        ("create", "exec", "train-worker-1", true),
        ("get", "", "train-worker-1", true),
        ("list", "", "", true),
        ("get", "exec", "train-worker-2", false),
        ("create", "exec", "train-launcher", false),
        ("create", "exec", "", false),
        ("delete", "", "train-worker-0", false),
        ("create", "", "", false),
    ] {
        let said = may(&fixture, verb, part, pod)?;
        ensure!(said == allowed, "{verb} pods/{part} {pod}: {said}");
    }
    Ok(())
}

/// A colleague takes the name of a worker that cannot come back.
#[test]
fn s04_a_pod_of_somebody_else_is_not_entered_on_a_workers_name() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let operator = fixture.operator()?;
    submit(&fixture, &job("train", 2))?;
    run(&fixture, "train", 2)?;
    let may_enter = |pod: &str| may(&fixture, "create", "exec", pod);
    ensure!(may_enter("train-worker-1")?, "its own worker");

    let namespace = format!("/api/v1/namespaces/{}", fixture.namespace);
    let label = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let labels = json!({"metadata": {"labels": label}});
    fixture.api.merge(&namespace, &labels)?;
    fixture
        .api
        .delete(&fixture.path("pods", "train-worker-1"))?;
    let restricted = json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let container = json!({"name": "c", "image": "i", "securityContext": restricted});
    let theirs = json!({"metadata": {"name": "train-worker-1"},
        "spec": {"containers": [container]}});
    wait_for("the name to be free", SOON, || {
        let taken = fixture.get("pods", "train-worker-1")?.is_some();
        Ok((!taken).then_some(()))
    })?;
    fixture.create("pods", &theirs)?;
    wait_for("the right to end", SOON, || {
        Ok((!may_enter("train-worker-1")?).then_some(()))
    })?;
    ensure!(may_enter("train-worker-0")?, "its own worker");
    operator.assert_alive()
}

#[test]
fn a19_everything_goes_with_the_job() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let _operator = fixture.operator()?;
    submit(&fixture, &job("train", 2))?;
    run(&fixture, "train", 2)?;
    fixture.api.delete(&path(&fixture, "train"))?;
    for (resource, end) in CHILDREN {
        let name = format!("train{end}");
        wait_for(&format!("{resource} {name} to go"), SOON, || {
            Ok(fixture.get(resource, &name)?.is_none().then_some(()))
        })?;
    }
    fixture.await_pods("train", "worker", 0)?;
    fixture.await_pods("train", "launcher", 0)?;
    Ok(())
}

#[test]
fn q08_names_that_others_hold_are_told_and_left_alone() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let operator = fixture.operator()?;
    let template = json!({"metadata": {"labels": {"app": "theirs"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let theirs = json!({"metadata": {"name": "train-worker"}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"app": "theirs"}}, "serviceName": "s", "template": template}});
    fixture.create("statefulsets", &theirs)?;
    let before = fixture.await_object("statefulsets", "train-worker")?;
    submit(&fixture, &job("train", 2))?;
    let told = wait_for("a reason", TOLD_WITHIN, || {
        let job = get(&fixture, "train")?;
        Ok(Some(job).filter(|job| job["status"]["muster"]["reason"] == "NameTaken"))
    })?;
    let message = told["status"]["muster"]["message"].as_str();
    let message = message.unwrap_or_default();
    ensure!(
        message.contains("\"train-worker\" of Kind \"StatefulSet\""),
        "{message}"
    );
    wait_for("an event", TOLD_WITHIN, || {
        let reasons = fixture.event_reasons("train")?;
        Ok(reasons.contains(&"NameTaken".to_owned()).then_some(()))
    })?;
    let after = fixture.await_object("statefulsets", "train-worker")?;
    ensure!(after["spec"] == before["spec"], "it was changed");
    operator.assert_alive()?;

    fixture
        .api
        .delete(&fixture.path("statefulsets", "train-worker"))?;
    wait_for("workers", SOON * 3, || {
        let pods = fixture.pods("train", "worker")?;
        Ok((pods.len() == 2).then_some(()))
    })
}

#[test]
fn a22_kubectl_lists_jobs_of_every_api_with_columns() -> Result<()> {
    let fixture = new_fixture("bdap")?;
    let _operator = fixture.operator()?;
    submit(&fixture, &job("train", 2))?;
    run(&fixture, "train", 2)?;
    let listed = fixture
        .cluster
        .kubectl(&["get", "mpi", "-n", &fixture.namespace])?;
    let mut lines = listed.lines().map(|line| line.split_whitespace());
    let head: Vec<&str> = lines.next().context("no head")?.collect();
    ensure!(
        head == ["NAME", "LAUNCHER", "READY", "REASON", "AGE"],
        "{listed}"
    );
    let row: Vec<&str> = lines.next().context("no row")?.collect();
    ensure!(row[1..3] == ["Running", "2/2"], "{listed}");
    ensure!(row[0].ends_with("train"), "{listed}");
    Ok(())
}

fn fixtures(kind: &str) -> Result<Vec<PathBuf>> {
    let folder = repository().join("e2e/fixtures/bdap_v1").join(kind);
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
    let text = fs::read_to_string(file)?;
    let answer = fixture.cluster.kubectl_with(&args, &text);
    Ok(answer.err().map(|error| format!("{error:#}")))
}

#[test]
fn a03_a04_and_a22_bad_jobs_are_refused_by_field_and_good_ones_are_not() -> Result<()> {
    let fixture = new_fixture("bdap")?;
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
        "{} bad jobs of bdap refused, each by its field",
        files.len()
    ));
    Ok(())
}
